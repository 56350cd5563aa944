//! The system calls that a job may make, in groups, each with its reason. Everything else is refused with EPERM.
//!
//! Refused on purpose, among others:
//!
//! - namespaces and mounts: they are the walls
//! - `ptrace` and `process_vm_*`: other processes' memory
//! - `bpf`, `perf_event_open`, `userfaultfd`, `io_uring_*`: attack surface of the kernel
//! - `keyctl` and related calls: keys are not namespaced
//! - `AF_NETLINK`, `AF_PACKET`, `AF_VSOCK`, `AF_ALG`: sockets past the network wall
//! - `TIOCSTI`: typing into a terminal
//! - `inotify`, `fanotify`, `F_NOTIFY`, `F_SETLEASE`: the files that a sandbox sees are the machine's or the
//!   container's, and a watch on them tells what everybody runs
//! - `mincore` and `cachestat`: the page cache tells the same
//! - `sync` and `syncfs`: they make the machine's disks work for everybody
//! - clocks, modules, `kexec`, swap, quotas
//!
//! Calls whose arguments decide what they do are in [`super::arguments`].

use libc::c_long;

use super::entry::{Entry, Test, free, when};

const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// Allowed by the base filter.
pub(super) fn allowed() -> Vec<Entry> {
    let mut table = vec![
        free(
            "read and write what is open",
            &[
                libc::SYS_read,
                libc::SYS_write,
                libc::SYS_readv,
                libc::SYS_writev,
                libc::SYS_pread64,
                libc::SYS_pwrite64,
                libc::SYS_preadv,
                libc::SYS_pwritev,
                libc::SYS_lseek,
                libc::SYS_sendfile,
                libc::SYS_splice,
                libc::SYS_tee,
                libc::SYS_vmsplice,
                libc::SYS_copy_file_range,
                libc::SYS_readahead,
                libc::SYS_fsync,
                libc::SYS_fdatasync,
                libc::SYS_sync_file_range,
                libc::SYS_ftruncate,
                libc::SYS_fallocate,
            ],
        ),
        free(
            "open, close and copy descriptors",
            &[
                libc::SYS_openat,
                libc::SYS_openat2,
                libc::SYS_close,
                libc::SYS_close_range,
                libc::SYS_dup,
                libc::SYS_dup3,
                libc::SYS_pipe2,
                libc::SYS_eventfd2,
                libc::SYS_timerfd_create,
                libc::SYS_timerfd_settime,
                libc::SYS_timerfd_gettime,
                libc::SYS_signalfd4,
                libc::SYS_pidfd_open,
                libc::SYS_pidfd_send_signal,
                libc::SYS_flock,
            ],
        ),
        free(
            "walk and change the sandbox's files",
            &[
                libc::SYS_newfstatat,
                libc::SYS_fstat,
                libc::SYS_statx,
                libc::SYS_statfs,
                libc::SYS_fstatfs,
                libc::SYS_getdents64,
                libc::SYS_getcwd,
                libc::SYS_chdir,
                libc::SYS_fchdir,
                libc::SYS_readlinkat,
                libc::SYS_faccessat,
                libc::SYS_faccessat2,
                libc::SYS_mkdirat,
                libc::SYS_mknodat,
                libc::SYS_unlinkat,
                libc::SYS_renameat2,
                libc::SYS_linkat,
                libc::SYS_symlinkat,
                libc::SYS_fchmod,
                libc::SYS_fchmodat,
                libc::SYS_fchown,
                libc::SYS_fchownat,
                libc::SYS_truncate,
                libc::SYS_utimensat,
                libc::SYS_umask,
                libc::SYS_getxattr,
                libc::SYS_lgetxattr,
                libc::SYS_fgetxattr,
                libc::SYS_listxattr,
                libc::SYS_llistxattr,
                libc::SYS_flistxattr,
                libc::SYS_setxattr,
                libc::SYS_lsetxattr,
                libc::SYS_fsetxattr,
                libc::SYS_removexattr,
                libc::SYS_lremovexattr,
                libc::SYS_fremovexattr,
            ],
        ),
        free(
            "memory",
            &[
                libc::SYS_munmap,
                libc::SYS_mremap,
                libc::SYS_mprotect,
                libc::SYS_brk,
                libc::SYS_msync,
                libc::SYS_mlock,
                libc::SYS_mlock2,
                libc::SYS_munlock,
                libc::SYS_mlockall,
                libc::SYS_munlockall,
                libc::SYS_membarrier,
                libc::SYS_get_mempolicy,
                libc::SYS_pkey_alloc,
                libc::SYS_pkey_free,
                libc::SYS_pkey_mprotect,
            ],
        ),
        free(
            "processes, threads and their ends",
            &[
                libc::SYS_execve,
                libc::SYS_execveat,
                libc::SYS_exit,
                libc::SYS_exit_group,
                libc::SYS_wait4,
                libc::SYS_waitid,
                libc::SYS_getpid,
                libc::SYS_getppid,
                libc::SYS_gettid,
                libc::SYS_getpgid,
                libc::SYS_setpgid,
                libc::SYS_getsid,
                libc::SYS_setsid,
                libc::SYS_set_tid_address,
                libc::SYS_set_robust_list,
                libc::SYS_get_robust_list,
                libc::SYS_rseq,
                libc::SYS_futex,
                libc::SYS_futex_waitv,
                // The second filter answers ENOSYS. libc then uses clone, whose flags a filter can see.
                libc::SYS_clone3,
            ],
        ),
        free(
            "signals",
            &[
                libc::SYS_rt_sigaction,
                libc::SYS_rt_sigprocmask,
                libc::SYS_rt_sigreturn,
                libc::SYS_rt_sigpending,
                libc::SYS_rt_sigsuspend,
                libc::SYS_rt_sigtimedwait,
                libc::SYS_rt_sigqueueinfo,
                libc::SYS_rt_tgsigqueueinfo,
                libc::SYS_sigaltstack,
                libc::SYS_kill,
                libc::SYS_tkill,
                libc::SYS_tgkill,
                libc::SYS_restart_syscall,
            ],
        ),
        free(
            "time",
            &[
                libc::SYS_clock_gettime,
                libc::SYS_clock_getres,
                libc::SYS_clock_nanosleep,
                libc::SYS_nanosleep,
                libc::SYS_gettimeofday,
                libc::SYS_times,
                libc::SYS_getitimer,
                libc::SYS_setitimer,
                libc::SYS_timer_create,
                libc::SYS_timer_settime,
                libc::SYS_timer_gettime,
                libc::SYS_timer_getoverrun,
                libc::SYS_timer_delete,
            ],
        ),
        free(
            "waiting for several",
            &[
                libc::SYS_ppoll,
                libc::SYS_pselect6,
                libc::SYS_epoll_create1,
                libc::SYS_epoll_ctl,
                libc::SYS_epoll_pwait,
                libc::SYS_epoll_pwait2,
            ],
        ),
        free(
            "scheduling of its own",
            &[
                libc::SYS_sched_yield,
                libc::SYS_sched_getaffinity,
                libc::SYS_sched_setaffinity,
                libc::SYS_sched_getparam,
                libc::SYS_sched_getscheduler,
                libc::SYS_sched_getattr,
                libc::SYS_sched_get_priority_max,
                libc::SYS_sched_get_priority_min,
                libc::SYS_sched_rr_get_interval,
                libc::SYS_sched_setparam,
                libc::SYS_getpriority,
                libc::SYS_setpriority,
                libc::SYS_ioprio_get,
                libc::SYS_getcpu,
            ],
        ),
        free(
            "who and where it is",
            &[
                libc::SYS_getuid,
                libc::SYS_geteuid,
                libc::SYS_getgid,
                libc::SYS_getegid,
                libc::SYS_getresuid,
                libc::SYS_getresgid,
                libc::SYS_getgroups,
                libc::SYS_uname,
                libc::SYS_sysinfo,
                libc::SYS_getrusage,
                libc::SYS_getrlimit,
                libc::SYS_capget,
                libc::SYS_getrandom,
            ],
        ),
        free(
            "ids may only be set to what they are: nothing is mapped but one",
            &[
                libc::SYS_setuid,
                libc::SYS_setgid,
                libc::SYS_setreuid,
                libc::SYS_setregid,
                libc::SYS_setresuid,
                libc::SYS_setresgid,
                libc::SYS_setfsuid,
                libc::SYS_setfsgid,
            ],
        ),
        free(
            "sockets that are open; making one is below",
            &[
                libc::SYS_bind,
                libc::SYS_listen,
                libc::SYS_accept,
                libc::SYS_accept4,
                libc::SYS_connect,
                libc::SYS_getsockname,
                libc::SYS_getpeername,
                libc::SYS_shutdown,
            ],
        ),
        free(
            "System V and POSIX interprocess communication: the sandbox has an ipc namespace of its own",
            &[
                libc::SYS_shmat,
                libc::SYS_shmdt,
                libc::SYS_shmctl,
                libc::SYS_semop,
                libc::SYS_semtimedop,
                libc::SYS_semctl,
                libc::SYS_msgget,
                libc::SYS_msgsnd,
                libc::SYS_msgrcv,
                libc::SYS_msgctl,
                libc::SYS_mq_open,
                libc::SYS_mq_unlink,
                libc::SYS_mq_timedsend,
                libc::SYS_mq_timedreceive,
                libc::SYS_mq_notify,
                libc::SYS_mq_getsetattr,
            ],
        ),
        free("a child joins its sandbox; sealed afterwards", &[libc::SYS_setns, libc::SYS_capset]),
        free("a child has its own pages copied; sealed afterwards", &[libc::SYS_process_madvise]),
        when("new processes and threads, never new namespaces", &[libc::SYS_clone], 0, Test::Masked(NAMESPACES, 0)),
        when("what personality it has", &[libc::SYS_personality], 0, Test::Is(0xffff_ffff)),
        when("the default personality", &[libc::SYS_personality], 0, Test::Is(0)),
    ];
    table.extend(super::arguments::allowed());
    table.extend(legacy());
    table
}

/// Older forms of calls, which only older architectures have.
#[cfg(target_arch = "x86_64")]
fn legacy() -> Vec<Entry> {
    vec![free(
        "older forms of the above",
        &[
            libc::SYS_open,
            libc::SYS_creat,
            libc::SYS_stat,
            libc::SYS_lstat,
            libc::SYS_access,
            libc::SYS_readlink,
            libc::SYS_mkdir,
            libc::SYS_rmdir,
            libc::SYS_unlink,
            libc::SYS_rename,
            libc::SYS_renameat,
            libc::SYS_link,
            libc::SYS_symlink,
            libc::SYS_chmod,
            libc::SYS_chown,
            libc::SYS_lchown,
            libc::SYS_mknod,
            libc::SYS_getdents,
            libc::SYS_utime,
            libc::SYS_utimes,
            libc::SYS_futimesat,
            libc::SYS_dup2,
            libc::SYS_pipe,
            libc::SYS_eventfd,
            libc::SYS_signalfd,
            libc::SYS_poll,
            libc::SYS_select,
            libc::SYS_epoll_create,
            libc::SYS_epoll_wait,
            libc::SYS_fork,
            libc::SYS_vfork,
            libc::SYS_getpgrp,
            libc::SYS_pause,
            libc::SYS_alarm,
            libc::SYS_time,
        ],
    )]
}

/// Newer architectures have no older forms.
#[cfg(not(target_arch = "x86_64"))]
fn legacy() -> Vec<Entry> {
    vec![free("older form of renameat2", &[libc::SYS_renameat])]
}

/// Allowed to everything in a native container, the runner included: what jobs may ask for, mostly without a look at
/// the arguments (which is left to the job's own filter), and what sandboxes are made with. A rule on a call's number
/// alone costs the kernel nothing, because the kernel caches the answer.
pub(super) fn outer() -> Vec<Entry> {
    const LOOKED_AT: [c_long; 3] = [libc::SYS_socket, libc::SYS_socketpair, libc::SYS_personality];
    let mut table = allowed();
    for entry in &mut table {
        if !entry.calls.iter().any(|call| LOOKED_AT.contains(call)) {
            entry.when.clear();
        }
    }
    table.push(free(
        "sandboxes: fresh namespaces and their mounts, possible only in a user namespace of one's own",
        &[libc::SYS_mount, libc::SYS_umount2, libc::SYS_unshare, libc::SYS_sethostname, libc::SYS_seccomp],
    ));
    table
}
