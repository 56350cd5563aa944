//! Figures that the kernel gives about a process.

/// A figure that a file in `/proc/<pid>` gives in kB, such as `RssAnon` of `status` or `Pss` of `smaps_rollup`, in
/// bytes. `None` if the process is gone or the file has no such line.
pub(crate) fn bytes(pid: u32, file: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(value.trim().split(' ').next()?.parse::<u64>().ok()? * 1024)
}
