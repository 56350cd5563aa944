//! The only unsafe code of this crate: system calls that no safe wrapper offers.
//!
//! They are for a process with a single thread, so that a forked child may run any code.

use std::io;

/// Namespaces that a sandbox's first process is forked into. It enters its user namespace later.
pub(super) const FRESH: i32 = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

/// Forks into new namespaces where `flags` name some, and does `work` in the child, which then ends. Waits for the
/// child's end, and returns its exit status.
pub(super) fn in_child(flags: i32, work: impl FnOnce() -> io::Result<()>) -> io::Result<i32> {
    let flags = (flags | libc::SIGCHLD) as libc::c_ulong;
    // SAFETY: without CLONE_VM the child has its own copy of everything and returns here on a copy of this stack. The
    // process is single-threaded (module docs).
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    if pid == 0 {
        let status = work().map_or_else(
            |e| {
                eprintln!("floor: {e}");
                1
            },
            |()| 0,
        );
        // SAFETY: always allowed. Nothing that is buffered here is this process's own.
        unsafe { libc::_exit(status) }
    }
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut status = 0;
    // SAFETY: the pointer is to a live local of the right type.
    while unsafe { libc::waitpid(pid as libc::pid_t, &raw mut status, libc::__WALL) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) })
}

/// Moves this process (or, for pid namespaces, its future children) into new namespaces.
pub(super) fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: plain namespace flags touch no memory.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
