//! The kernel, its security module, memory and limits, read from where the kernel tells them.

use super::Check;
use super::remedy::Remedy;

/// `/proc/sys` and `/sys` files, trimmed.
pub(super) fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The release, as its first two numbers.
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
            "Sandboxes work; pages can't be touched ahead (MADV_POPULATE), so that each start is slower.",
            fix,
        ),
        _ => {
            Check::fail("kernel", found, "Sandboxes need close_range, pidfds and tmpfs in user namespaces (5.11).", fix)
        }
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
            "Programs of an ordinary user get no namespaces, and native sandboxes fail.",
            "run as root, or: sudo thermae doctor --fix\n(sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
        )
        .remedied_by(Some(Remedy::Sysctl("kernel.apparmor_restrict_unprivileged_userns", 0))),
        (false, true) => Check::ok("apparmor", "active, profile thermae is loaded"),
        (false, false) => Check::warn(
            "apparmor",
            "active, profile thermae is not loaded",
            "Docker pools need it: docker-default forbids the mounts that sandboxes are made of. Native ones do not.",
            "sudo thermae doctor --fix (apparmor_parser -r images/apparmor/thermae); workers then use it by themselves",
        )
        .remedied_by(Some(Remedy::LoadProfile)),
    }
}

/// Container engines mount things over parts of /proc; then the kernel refuses a fresh /proc to nested sandboxes.
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
        "This is a container that hides parts of /proc: the kernel then refuses a fresh /proc inside sandboxes.",
        "start this container with --security-opt systempaths=unconfined and a seccomp profile that allows namespaces\n(images/seccomp.json)",
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
        "Each warm container holds interpreters: some 50 MiB, 150 MiB with numpy and pandas, and the job's own.",
        "free some memory, or run fewer at once (slots in the worker's configuration)",
    )
}

pub(super) fn processors() -> Check {
    match std::thread::available_parallelism() {
        Ok(n) => Check::ok("processors", format!("{n}, so that the default is {} jobs at once", 2 * n.get())),
        Err(error) => Check::warn(
            "processors",
            format!("not known: {error}"),
            "One is assumed.",
            "set slots in the configuration",
        ),
    }
}

pub(super) fn open_files() -> Check {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX);
    let found = if soft == u64::MAX { "no limit".to_owned() } else { format!("{soft} at once") };
    if soft >= 1024 {
        return Check::ok("open files", found);
    }
    Check::warn("open files", found, "Each container and each job needs several.", "ulimit -n 4096")
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
