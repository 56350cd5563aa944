//! The only unsafe code of this crate: system calls that no safe wrapper offers.
//!
//! The runner and every process that it forks are single-threaded until an `exec`, so that a forked child may run any
//! code.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Flags of `clone` and `unshare` for new namespaces.
pub(crate) use libc::{
    CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS, CLONE_PARENT,
};

/// Which side of a [`fork`] runs.
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The caller, with a handle on the child.
    Parent {
        /// In the caller's pid namespace.
        pid: i32,
        /// Readable once the child has ended. `None` where the kernel has no such handles (gVisor).
        pidfd: Option<OwnedFd>,
    },
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Forks, into new namespaces where `flags` name some.
pub(crate) fn fork(flags: i32) -> io::Result<Fork> {
    // Some releases of gVisor ignore the flag for a pidfd, others refuse it.
    match clone(flags | libc::CLONE_PIDFD) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => clone(flags),
        forked => forked,
    }
}

fn clone(flags: i32) -> io::Result<Fork> {
    let mut pidfd: RawFd = -1;
    let flags = (flags | libc::SIGCHLD) as libc::c_ulong;
    // SAFETY: without CLONE_VM the child has its own copy of everything and returns here on a copy of this stack;
    // `pidfd` is a live int that the kernel fills in the parent. The process is single-threaded (module docs).
    let pid = check(unsafe { libc::syscall(libc::SYS_clone, flags, 0usize, &raw mut pidfd, 0usize, 0usize) })?;
    if pid == 0 {
        return Ok(Fork::Child);
    }
    // SAFETY: the kernel has just made this descriptor for us.
    let pidfd = (pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
    Ok(Fork::Parent { pid: pid as i32, pidfd })
}

/// Moves this process (or, for pid namespaces, its future children) into new namespaces.
pub(crate) fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: callers pass flags for namespaces only, and these touch no memory.
    check(libc::c_long::from(unsafe { libc::unshare(flags) })).map(drop)
}

/// A child that ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaped {
    /// Its pid.
    pub(crate) pid: i32,
    /// How it ended.
    pub(crate) status: Status,
    /// User and system time of the child and of the children that it waited for.
    pub(crate) cpu: Duration,
    /// Peak resident set in bytes.
    pub(crate) max_rss: u64,
}

/// How a process ended, according to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
}

fn time(t: libc::timeval) -> Duration {
    Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
}

/// Reaps one ended child (`pid`, or any for −1); `block` waits for it. `None` when there is none.
pub(crate) fn wait(pid: i32, block: bool) -> io::Result<Option<Reaped>> {
    let mut status = 0;
    // SAFETY: rusage is plain numbers; all zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let flags = libc::__WALL | if block { 0 } else { libc::WNOHANG };
    loop {
        // SAFETY: both pointers are to live locals of the right types.
        let got = unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) };
        if got > 0 {
            let how = if libc::WIFSIGNALED(status) {
                Status::Signaled(libc::WTERMSIG(status))
            } else {
                Status::Exited(libc::WEXITSTATUS(status))
            };
            let cpu = time(usage.ru_utime) + time(usage.ru_stime);
            return Ok(Some(Reaped { pid: got, status: how, cpu, max_rss: usage.ru_maxrss as u64 * 1024 }));
        }
        match (got, io::Error::last_os_error()) {
            (0, _) => return Ok(None),
            (_, e) if e.kind() == io::ErrorKind::Interrupted => {}
            (_, e) if e.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
            (_, e) => return Err(e),
        }
    }
}

/// Replaces this process by a program; returns only on failure.
pub(crate) fn exec(path: &CString, args: &[CString], env: &[CString]) -> io::Error {
    let list = |of: &[CString]| of.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let (args, env) = (list(args), list(env));
    // SAFETY: both arrays end in null and point to strings that outlive the call.
    unsafe { libc::execve(path.as_ptr(), args.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Ends the process at once, without destructors.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: always allowed; nothing buffered is ours to flush.
    unsafe { libc::_exit(code) }
}

/// Closes every descriptor from `first` to `last`, ends included.
pub(crate) fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: callers are forked children that own no Rust descriptor they use afterwards in that range.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if done != 0 {
        for fd in first..=last.min(4096) {
            // SAFETY: as above.
            unsafe { libc::close(fd) };
        }
    }
}

/// Duplicates `fd` to the number `to`, which stays open over an `exec`.
pub(crate) fn place_fd(fd: BorrowedFd<'_>, to: RawFd) -> io::Result<()> {
    // SAFETY: callers are about to exec and own number `to`. A descriptor already there only loses close-on-exec.
    let done = unsafe {
        if fd.as_raw_fd() == to { libc::fcntl(to, libc::F_SETFD, 0) } else { libc::dup2(fd.as_raw_fd(), to) }
    };
    check(libc::c_long::from(done)).map(drop)
}

/// Blocks these signals and returns a descriptor that reads them.
pub(crate) fn signal_fd(signals: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before use; the returned descriptor is new and ours.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        signals.iter().for_each(|&s| {
            libc::sigaddset(&raw mut set, s);
        });
        check(libc::c_long::from(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())))?;
        let fd = check(libc::c_long::from(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)))?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// Empties a [`signal_fd`]; `true` when a signal other than SIGCHLD was in it.
pub(crate) fn drain_signals(fd: BorrowedFd<'_>) -> bool {
    let mut other = false;
    // SAFETY: the record is plain numbers and exactly as large as the kernel writes.
    unsafe {
        let mut info: libc::signalfd_siginfo = std::mem::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        while libc::read(fd.as_raw_fd(), (&raw mut info).cast(), size) == size as isize {
            other |= info.ssi_signo != libc::SIGCHLD as u32;
        }
    }
    other
}

/// Gives every signal its default action and an empty mask, as a program expects them after an `exec`.
pub(crate) fn default_signals() {
    for signal in 1..32 {
        // SAFETY: SIG_DFL installs no code.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    unblock_signals();
}

/// Empties this thread's signal mask.
pub(crate) fn unblock_signals() {
    // SAFETY: the set is initialised before use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Ignores a signal. What this process executes later ignores it, too.
pub(crate) fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN installs no code.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Reaps this process's children forever. If the kernel reaped them by itself (with SIGCHLD ignored), their CPU time
/// would be added to nobody's.
pub(crate) fn reap_forever() -> ! {
    // SAFETY: the set is initialised before use, and both pointers are to live locals.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        let mut signal = 0;
        loop {
            // Without children there is nothing to wait for but the end of one that comes later.
            if libc::waitpid(-1, std::ptr::null_mut(), libc::__WALL) < 0 {
                libc::sigwait(&raw const set, &raw mut signal);
            }
        }
    }
}

/// CPU time that a live process has used, its threads together; `None` when it is gone.
pub(crate) fn cpu_time(pid: i32) -> Option<Duration> {
    if pid <= 0 {
        return None; // 0 would be this process itself.
    }
    // The kernel's encoding of "scheduler clock of that process" (posix-timers.h, MAKE_PROCESS_CPUCLOCK).
    let clock = (!pid << 3) | 2;
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a live timespec; a bad clock is answered by EINVAL.
    let done = unsafe { libc::clock_gettime(clock, &raw mut t) };
    (done == 0).then(|| Duration::new(t.tv_sec as u64, t.tv_nsec as u32))
}

/// Brings the loopback interface of this network namespace up.
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: ifreq is plain data, zeroed, with a terminated name; the socket is ours.
    unsafe {
        let fd = check(libc::c_long::from(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)))?;
        let fd = OwnedFd::from_raw_fd(fd as RawFd);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        check(libc::c_long::from(libc::ioctl(fd.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request))).map(drop)
    }
}

/// A descriptor of `/dev/null` for reading and writing.
pub(crate) fn null_device() -> io::Result<OwnedFd> {
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").map(OwnedFd::from)
}

/// Empties the bounding set, so that no `exec` gains a capability; needs `CAP_SETPCAP`.
pub(crate) fn drop_bounding_set() {
    for capability in 0..64 {
        // SAFETY: prctl with plain numbers; past the last capability it answers EINVAL.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            break;
        }
    }
}

/// Drops every capability of this thread and forbids gaining any by `exec`.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let header = Header { version: 0x2008_0522, pid: 0 };
    let none = [0u32; 6];
    // SAFETY: capset reads two live structures of the version they name; prctl takes plain numbers.
    unsafe {
        check(libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()))?;
        check(libc::c_long::from(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))).map(drop)
    }
}

/// Names this process, as `ps` shows it; at most 15 bytes.
pub(crate) fn set_name(name: &std::ffi::CStr) {
    // SAFETY: the kernel reads a string that ends in NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

/// Loads a system-call filter: an array of `struct sock_filter`. It needs `no_new_privs`.
///
/// # Errors
/// If the kernel refuses the filter.
pub(crate) fn load_filter(program: &[u8]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: (program.len() / size_of::<libc::sock_filter>()) as u16,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the kernel copies as many instructions as `len` says, from bytes that are alive and have no alignment
    // that it relies on.
    check(libc::c_long::from(unsafe { libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program, 0, 0) })).map(drop)
}

/// Sets `PR_SET_DUMPABLE`. `false` hides this process's memory and `/proc` entries from other processes of its user.
pub(crate) fn set_dumpable(yes: bool) {
    // SAFETY: prctl with plain numbers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, libc::c_ulong::from(yes), 0, 0, 0) };
}

/// Becomes another user and group for good, without supplementary groups.
pub(crate) fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: plain numbers; the process is single-threaded, so per-thread credentials are the process's.
    unsafe {
        check(libc::c_long::from(libc::setgroups(0, std::ptr::null())))?;
        check(libc::c_long::from(libc::setresgid(gid, gid, gid)))?;
        check(libc::c_long::from(libc::setresuid(uid, uid, uid))).map(drop)
    }
}

/// Asks for SIGKILL when the parent dies.
pub(crate) fn die_with_parent() {
    // SAFETY: prctl with plain numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
}

/// Closes every descriptor but this one and the standard three.
pub(crate) fn close_all_but(keep: &impl AsFd) {
    let keep = keep.as_fd().as_raw_fd();
    close_range(3, keep - 1);
    close_range(keep + 1, i32::MAX);
}

/// Kills a child by pid.
pub(crate) fn kill(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Maps a memory file in the place of this program's relocated data, byte for byte, so that a fork need not copy them.
///
/// The loader writes addresses into some 230 pages of the program's file and then makes them read-only
/// (`PT_GNU_RELRO`). From then on these pages are copies of the process's own: each fork copies their page-table
/// entries one by one, and each fork's end takes them back. Pages of a file that nobody wrote to are only looked up
/// when they are needed (`vma_needs_copy` in the kernel's `mm/memory.c`).
///
/// # Errors
/// If a system call fails. Nothing has changed then.
pub(crate) fn share_relocated_data() -> io::Result<()> {
    use std::io::Write;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    let Some((start, size)) = relocated_data() else { return Ok(()) };
    // SAFETY: the loader has mapped these whole pages readable for as long as the program runs, and nobody writes to
    // them.
    let content = unsafe { std::slice::from_raw_parts(start as *const u8, size) };
    let mut file = std::fs::File::from(memfd_create("relocated", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.write_all(content)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let (flags, at) = (libc::MAP_PRIVATE | libc::MAP_FIXED, start as *mut libc::c_void);
    // SAFETY: this replaces the pages in one step by others with the same bytes, which can't change, and with no more
    // rights. References into them stay good, and nobody writes to them. The process is single-threaded (module docs).
    let mapped = unsafe { libc::mmap(at, size, libc::PROT_READ, flags, file.as_raw_fd(), 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Start and length of this program's relocated data, in bytes and whole pages. `None` if there are none.
fn relocated_data() -> Option<(usize, usize)> {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, found: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the loader gives a live description of the program, which it lists first, and `found` as it was
        // passed.
        let (info, found) = unsafe { (&*info, &mut *found.cast::<Option<(usize, usize)>>()) };
        // SAFETY: the loader says how many headers there are.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let page = rustix::param::page_size();
        *found = headers.iter().find(|header| header.p_type == libc::PT_GNU_RELRO).and_then(|header| {
            let begin = (info.dlpi_addr as usize).checked_add(header.p_vaddr as usize)?;
            let (start, end) = (begin / page * page, begin.checked_add(header.p_memsz as usize)? / page * page);
            (start < end).then(|| (start, end - start))
        });
        1
    }
    let mut found = None;
    // SAFETY: `first` is given a live place for what it finds, and is called before this returns.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut found).cast()) };
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relocated_data_are_read_only_pages_of_the_program() {
        let (start, size) = relocated_data().unwrap();
        let line = format!("{start:x}-{:x} r--p ", start + size);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.lines().any(|l| l.starts_with(&line)), "no {line:?} in {maps}");
    }
}
