//! Checks the kernel, its security module, memory and limits, by what the kernel reports.

use super::Check;
use super::remedy::Remedy;

/// Reads a file of `/proc` or `/sys`, without white space around it; `None` if it can't be read.
pub(super) fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The first two numbers of a kernel release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub(super) fn kernel() -> Check {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let found = format!("Linux {release} on {}", std::env::consts::ARCH);
    let fix = "use Linux 5.14 or newer";
    match version(&release) {
        Some(version) if version >= (5, 14) => Check::ok("kernel", found),
        Some(version) if version >= (5, 11) => Check::warn(
            "kernel",
            found,
            "Sandboxes work, but start more slowly: memory can't be populated ahead of time (MADV_POPULATE).",
            fix,
        ),
        _ => Check::fail(
            "kernel",
            found,
            "Sandboxes need close_range, pidfds and tmpfs in user namespaces (Linux 5.11).",
            fix,
        ),
    }
}

pub(super) fn apparmor() -> Check {
    let enabled = read("/sys/module/apparmor/parameters/enabled").as_deref() == Some("Y");
    let restricts = read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1");
    if !enabled {
        return Check::ok("apparmor", "not active");
    }
    let profiles = read("/sys/kernel/security/apparmor/profiles").unwrap_or_default();
    let loaded = profiles.lines().any(|line| line.starts_with("thermae "));
    match (restricts, loaded) {
        (true, _) => Check::warn(
            "apparmor",
            "active, and restricts user namespaces of ordinary users",
            "Programs of ordinary users can't create namespaces, so their native sandboxes fail.",
            "run as root, or run: sudo thermae doctor --fix\n(sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
        )
        .remedied_by(Some(Remedy::Sysctl("kernel.apparmor_restrict_unprivileged_userns", 0))),
        (false, true) => Check::ok("apparmor", "active, the profile thermae is loaded"),
        (false, false) => Check::warn(
            "apparmor",
            "active, the profile thermae is not loaded",
            "Docker pools need it: docker-default forbids the mounts of sandboxes. Native pools don't need it.",
            "sudo thermae doctor --fix (apparmor_parser -r images/apparmor/thermae); workers then use it automatically",
        )
        .remedied_by(Some(Remedy::LoadProfile)),
    }
}

/// Checks that nothing is mounted over parts of /proc, as container engines do. If something is, the kernel refuses a
/// fresh /proc to nested sandboxes.
pub(super) fn proc_masks() -> Check {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let masked: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|at| at.starts_with("/proc/") && *at != "/proc/sys/fs/binfmt_misc")
        .collect();
    if masked.is_empty() {
        return Check::ok("/proc", "not masked");
    }
    Check::warn(
        "/proc",
        format!("{} parts are masked ({}, …)", masked.len(), masked[0]),
        "This container hides parts of /proc, so the kernel refuses a fresh /proc inside sandboxes.",
        "start the container with --security-opt systempaths=unconfined and a seccomp profile that allows namespaces\n(images/seccomp.json)",
    )
}

pub(super) fn memory() -> Check {
    let text = read("/proc/meminfo").unwrap_or_default();
    let mib = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
    };
    let (total, free) = (mib("MemTotal:").unwrap_or(0), mib("MemAvailable:").unwrap_or(0));
    let found = format!("{free} MiB of {total} MiB available");
    if free >= 1024 {
        return Check::ok("memory", found);
    }
    Check::warn(
        "memory",
        found,
        "Each warm container takes about 50 MiB, or 150 MiB with numpy and pandas, and the memory of its job.",
        "free some memory, or run fewer jobs at once (slots in the worker's configuration)",
    )
}

pub(super) fn processors() -> Check {
    match std::thread::available_parallelism() {
        Ok(n) => Check::ok("processors", format!("{n}; by default, {} jobs run at once", 2 * n.get())),
        Err(error) => Check::warn(
            "processors",
            format!("unknown: {error}"),
            "Thermae assumes one processor.",
            "set slots in the worker's configuration",
        ),
    }
}

pub(super) fn open_files() -> Check {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX);
    let found = if soft == u64::MAX { "no limit".to_owned() } else { format!("at most {soft}") };
    if soft >= 1024 {
        return Check::ok("open files", found);
    }
    Check::warn("open files", found, "Each container and each job needs several open files.", "ulimit -n 4096")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("5.14-rc1"), Some((5, 14)));
        assert!(version("5.9.2").unwrap() < (5, 11) && version("5.100.0").unwrap() > (5, 14));
        assert_eq!(version("linux"), None);
    }
}
