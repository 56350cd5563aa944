//! The tables of the two other filters: calls that must look unknown, and calls that the seal takes back.

use super::entry::{Arg, Entry, Test, free, when};

/// Calls that must look unknown, so that libc falls back to calls whose arguments a filter can see.
pub(super) fn absent() -> Vec<Entry> {
    vec![free("its flags are in memory, out of a filter's sight", &[libc::SYS_clone3])]
}

/// What the seal takes back once a child is in its sandbox.
pub(super) fn sealed() -> Vec<Entry> {
    let mut table = vec![
        free("namespaces are joined once", &[libc::SYS_setns]),
        free("capabilities are dropped once", &[libc::SYS_capset]),
        free("another process's memory is none of its business", &[libc::SYS_process_madvise]),
        when(
            "a child of the job's is no child of the runner's",
            &[libc::SYS_clone],
            0,
            Test::Masked(libc::CLONE_PARENT as u64, libc::CLONE_PARENT as u64),
        ),
        when(
            "a process's threads share its descriptors: memory files are looked for by process",
            &[libc::SYS_clone],
            0,
            Test::Masked((libc::CLONE_THREAD | libc::CLONE_FILES) as u64, libc::CLONE_THREAD as u64),
        ),
        when(
            "they go on sharing them",
            &[libc::SYS_close_range],
            2,
            Test::Masked(libc::CLOSE_RANGE_UNSHARE as u64, libc::CLOSE_RANGE_UNSHARE as u64),
        ),
    ];
    table.push(Entry {
        calls: &[libc::SYS_prctl],
        when: vec![
            Arg { index: 0, test: Test::Is(libc::PR_SET_DUMPABLE as u64) },
            Arg { index: 1, test: Test::Not(1) },
        ],
        why: "the runner measures the memory of a job's processes, so they stay open to others",
    });
    for option in [libc::PR_SET_SECCOMP, libc::PR_CAPBSET_DROP] {
        table.push(when("no filters and sets of its own", &[libc::SYS_prctl], 0, Test::Is(option as u64)));
    }
    table
}
