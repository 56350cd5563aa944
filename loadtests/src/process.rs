//! What the kernel tells of a process.

/// A figure in kB of one of its files in `/proc`, in bytes: `RssAnon` of `status`, `Pss` of `smaps_rollup`.
pub(crate) fn bytes(pid: u32, file: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(value.trim().split(' ').next()?.parse::<u64>().ok()? * 1024)
}
