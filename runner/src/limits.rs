//! Resource limits of a job's process, set from outside on the forked process.

use rustix::process::{Pid, Resource, Rlimit};

use crate::frames::Limits;
use crate::zygote::Hatched;

/// Descriptors that a job may hold.
const OPEN_FILES: u64 = 1024;

/// How much nicer a job's processes are than the runner, which shares the container's part of the processors with them: sixty that
/// spin would leave it too little to end them in time. Other containers are no concern of this; their weights are.
const NICER: i32 = 10;

/// The lowest priority that there is.
const NICEST: i32 = 19;

/// Address space beyond the private writable memory: shared mappings, reserved but unused arenas of threads, files.
const ADDRESS_SLACK: u64 = 4 << 30;

/// Sets what holds for every run in a sandbox of this container.
pub(crate) fn apply_ceiling(pid: i32, ceiling: &Limits, disk_bytes: u64, zygote: &Hatched) -> rustix::io::Result<()> {
    set(pid, Resource::Nofile, OPEN_FILES, OPEN_FILES)?;
    set(pid, Resource::Fsize, disk_bytes, disk_bytes)?;
    set(pid, Resource::Msgqueue, 819_200, 819_200)?;
    set(pid, Resource::Memlock, 8 << 20, 8 << 20)?;
    give_way(pid)?;
    set_memory(pid, ceiling, ceiling, zygote)?;
    set_pids(pid, ceiling, ceiling)
}

/// Lowers to what one run asked for. A session's process lives on: its limits can be raised again up to the ceiling, and
/// its CPU time is the runner's own watch.
pub(crate) fn apply_run(
    pid: i32,
    limits: &Limits,
    ceiling: &Limits,
    zygote: &Hatched,
    fresh: bool,
) -> rustix::io::Result<()> {
    if !fresh {
        set_memory(pid, limits, ceiling, zygote)?;
        return set_pids(pid, limits, ceiling);
    }
    if limits.memory_bytes < ceiling.memory_bytes {
        set_memory(pid, limits, limits, zygote)?;
    }
    if limits.pids < ceiling.pids {
        set_pids(pid, limits, limits)?;
    }
    // Whole seconds, and for each process apart; the runner's watch is finer and counts them together.
    let seconds = limits.cpu_ms.div_ceil(1000) + 1;
    set(pid, Resource::Cpu, seconds, seconds)
}

/// Lets a process, and all that it will start, come after the runner.
fn give_way(pid: i32) -> rustix::io::Result<()> {
    let own = rustix::process::getpriority_process(None)?;
    rustix::process::setpriority_process(Pid::from_raw(pid), (own + NICER).min(NICEST))
}

fn set_memory(pid: i32, soft: &Limits, hard: &Limits, zygote: &Hatched) -> rustix::io::Result<()> {
    let data = |limits: &Limits| zygote.data.saturating_add(limits.memory_bytes);
    let space =
        |limits: &Limits| zygote.vm.saturating_add(limits.memory_bytes.saturating_mul(2)).saturating_add(ADDRESS_SLACK);
    set(pid, Resource::Data, data(soft), data(hard))?;
    set(pid, Resource::As, space(soft), space(hard))
}

/// The kernel counts per user *and user namespace* since Linux 5.14, and every sandbox has a namespace of its own, so
/// that this is a limit on the sandbox. Its init counts as one. Before 5.14 it would count other people's processes.
fn set_pids(pid: i32, soft: &Limits, hard: &Limits) -> rustix::io::Result<()> {
    let count = |limits: &Limits| u64::from(limits.pids) + 1;
    if counts_per_namespace() { set(pid, Resource::Nproc, count(soft), count(hard)) } else { Ok(()) }
}

/// Whether this kernel counts processes per user namespace.
pub(crate) fn counts_per_namespace() -> bool {
    let uname = rustix::system::uname();
    let mut parts = uname.release().to_str().unwrap_or("").split('.').map(|p| p.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (5, 14)
}

fn set(pid: i32, what: Resource, soft: u64, hard: u64) -> rustix::io::Result<()> {
    let limit = Rlimit { current: Some(soft), maximum: Some(hard) };
    match Pid::from_raw(pid) {
        // A value above what this process itself may have: the lower one stands already.
        Some(pid) => match rustix::process::prlimit(Some(pid), what, limit) {
            Ok(_) | Err(rustix::io::Errno::PERM) => Ok(()),
            Err(e) => Err(e),
        },
        None => Err(rustix::io::Errno::SRCH),
    }
}
