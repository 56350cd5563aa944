//! Resource limits of a job's process, set from outside on the forked process.

use rustix::process::{Pid, Resource, Rlimit};

use crate::frames::Limits;
use crate::languages::ZygoteInfo;

/// Descriptors that a job may hold.
const OPEN_FILES: u64 = 1024;

/// How much higher the nice value of a job's processes is than the runner's. They share the container's processors, and
/// sixty processes that spin would leave the runner too little time to end them. This has no effect on other
/// containers, whose shares depend on their control groups' weights.
const NICER: i32 = 10;

/// The highest nice value, which is the lowest priority.
const NICEST: i32 = 19;

/// Address space beyond the private writable memory, in bytes: for shared mappings, mapped files, and arenas of threads
/// that are reserved but unused.
const ADDRESS_SLACK: u64 = 4 << 30;

/// Lowers a run's limits to the ceiling. `Err` is the name of a limit that is zero.
pub(crate) fn bounded(asked: &Limits, ceiling: &Limits) -> Result<Limits, &'static str> {
    let limits = Limits {
        wall_ms: asked.wall_ms.min(ceiling.wall_ms),
        pause_ms: asked.pause_ms.min(ceiling.pause_ms),
        pause_after_ms: asked.pause_after_ms.min(ceiling.pause_after_ms),
        grace_ms: asked.grace_ms.min(ceiling.grace_ms),
        cpu_ms: asked.cpu_ms.min(ceiling.cpu_ms),
        memory_bytes: asked.memory_bytes.min(ceiling.memory_bytes),
        pids: asked.pids.min(ceiling.pids),
        output_bytes: asked.output_bytes.min(ceiling.output_bytes),
    };
    let zero = [
        ("wall_ms", limits.wall_ms),
        ("cpu_ms", limits.cpu_ms),
        ("memory_bytes", limits.memory_bytes),
        ("pids", u64::from(limits.pids)),
        ("output_bytes", limits.output_bytes),
    ];
    match zero.iter().find(|(_, n)| *n == 0) {
        Some((name, _)) => Err(name),
        None => Ok(limits),
    }
}

/// Sets the limits that hold for every run in a sandbox of this container.
pub(crate) fn apply_ceiling(
    pid: i32,
    ceiling: &Limits,
    disk_bytes: u64,
    zygote: &ZygoteInfo,
) -> rustix::io::Result<()> {
    set(pid, Resource::Nofile, OPEN_FILES, OPEN_FILES)?;
    set(pid, Resource::Fsize, disk_bytes, disk_bytes)?;
    set(pid, Resource::Msgqueue, 819_200, 819_200)?;
    set(pid, Resource::Memlock, 8 << 20, 8 << 20)?;
    give_way(pid)?;
    set_memory(pid, ceiling, ceiling, zygote)?;
    set_pids(pid, ceiling, ceiling, zygote)
}

/// Lowers the limits to what one run asked for. A session's process lives on (`fresh` is false): a later run can raise
/// its limits up to the ceiling again, and only the runner watches its CPU time.
pub(crate) fn apply_run(
    pid: i32,
    limits: &Limits,
    ceiling: &Limits,
    zygote: &ZygoteInfo,
    fresh: bool,
) -> rustix::io::Result<()> {
    if !fresh {
        set_memory(pid, limits, ceiling, zygote)?;
        return set_pids(pid, limits, ceiling, zygote);
    }
    if limits.memory_bytes < ceiling.memory_bytes {
        set_memory(pid, limits, limits, zygote)?;
    }
    if limits.pids < ceiling.pids {
        set_pids(pid, limits, limits, zygote)?;
    }
    // The kernel counts whole seconds, and each process by itself. The runner's watch is finer and counts them
    // together.
    let seconds = limits.cpu_ms.div_ceil(1000) + 1;
    set(pid, Resource::Cpu, seconds, seconds)
}

/// Gives a process, and all that it will start, a lower priority than the runner's.
fn give_way(pid: i32) -> rustix::io::Result<()> {
    let own = rustix::process::getpriority_process(None)?;
    rustix::process::setpriority_process(Pid::from_raw(pid), (own + NICER).min(NICEST))
}

fn set_memory(pid: i32, soft: &Limits, hard: &Limits, zygote: &ZygoteInfo) -> rustix::io::Result<()> {
    let data = |limits: &Limits| zygote.data.saturating_add(limits.memory_bytes);
    let space =
        |limits: &Limits| zygote.vm.saturating_add(limits.memory_bytes.saturating_mul(2)).saturating_add(ADDRESS_SLACK);
    set(pid, Resource::Data, data(soft), data(hard))?;
    set(pid, Resource::As, space(soft), space(hard))
}

/// Limits the number of a sandbox's processes. Since Linux 5.14 the kernel counts them per user *and user namespace*,
/// and every sandbox has a user namespace of its own. The sandbox's init counts, too, and so do the processes that
/// belong to the language ([`ZygoteInfo::helpers`]). Before 5.14, processes outside the sandbox would count, so there
/// is no limit.
fn set_pids(pid: i32, soft: &Limits, hard: &Limits, zygote: &ZygoteInfo) -> rustix::io::Result<()> {
    let count = |limits: &Limits| u64::from(limits.pids) + 1 + u64::from(zygote.helpers);
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
        // `EPERM`: the value is above the limit that holds already, and that one stays.
        Some(pid) => match rustix::process::prlimit(Some(pid), what, limit) {
            Ok(_) | Err(rustix::io::Errno::PERM) => Ok(()),
            Err(e) => Err(e),
        },
        None => Err(rustix::io::Errno::SRCH),
    }
}
