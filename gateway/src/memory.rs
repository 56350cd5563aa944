//! What the process does with memory that is free again.

#![allow(unsafe_code)]

/// Blocks from this size on go back to the kernel when they are freed, in bytes: as glibc begins.
#[cfg(target_env = "gnu")]
const LARGE: std::ffi::c_int = 128 << 10;

/// Has large blocks go back to the kernel as soon as they are freed. By default, glibc keeps up to 32 MiB of them in
/// each of its arenas once a few were freed (`mallopt(3)`, `M_MMAP_THRESHOLD`): after a flood of answers of 1 MiB, that
/// was more than a hundred MiB, and no budget could count it.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number under the allocator's own lock, and is called with a parameter and a value from its
    // manual. Allocations that are under way use the old number or the new one.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}
