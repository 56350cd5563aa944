//! Helpers on mounts that both walls use.

use std::fs;
use std::io;

use rustix::mount::MountFlags;

/// One mount: a line of `/proc/self/mountinfo`.
pub(crate) struct Mount {
    /// Mount point, unescaped.
    pub(crate) at: String,
    /// Flags that a remount must repeat, since a user namespace locks them.
    pub(crate) flags: MountFlags,
}

/// The mounts of this namespace, in the order in which they were made.
pub(crate) fn list() -> io::Result<Vec<Mount>> {
    Ok(fs::read_to_string("/proc/self/mountinfo")?.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ').skip(4);
    let at = unescape(fields.next()?);
    let flags = fields.next()?.split(',').fold(MountFlags::empty(), |flags, option| {
        flags
            | match option {
                "ro" => MountFlags::RDONLY,
                "nosuid" => MountFlags::NOSUID,
                "nodev" => MountFlags::NODEV,
                "noexec" => MountFlags::NOEXEC,
                "noatime" => MountFlags::NOATIME,
                "nodiratime" => MountFlags::NODIRATIME,
                "relatime" => MountFlags::RELATIME,
                _ => MountFlags::empty(),
            }
    });
    Some(Mount { at, flags })
}

/// Decodes a path: the kernel writes white space and backslashes as a backslash and three octal digits.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = (byte == b'\\')
            .then(|| tail.get(..3).and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok()))
            .flatten();
        out.push(octal.unwrap_or(byte));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Makes every mount read-only and `nosuid`, except those that `except` names.
pub(crate) fn make_read_only(except: impl Fn(&str) -> bool) -> io::Result<()> {
    for mount in list()? {
        if !except(&mount.at) && !mount.flags.contains(MountFlags::RDONLY | MountFlags::NOSUID) {
            let flags = mount.flags | MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID;
            match rustix::mount::mount_remount(mount.at.as_str(), flags, "") {
                // Neither this process nor a job can reach a mount by its path if another mount covers it.
                Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS) => {}
                Err(e) => return Err(io::Error::other(format!("{}: {e}", mount.at))),
            }
        }
    }
    Ok(())
}

/// Whether the path `at` is `place` or lies below it.
pub(crate) fn at_or_below(at: &str, place: &str) -> bool {
    at.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_a_place_is_not_beside_it() {
        assert!(at_or_below("/tmp", "/tmp") && at_or_below("/tmp/a", "/tmp"));
        assert!(!at_or_below("/tmpfs", "/tmp") && !at_or_below("/", "/tmp"));
    }

    #[test]
    fn a_mountinfo_line_gives_path_and_locked_flags() {
        let mount = parse(r"36 35 98:0 /m /a\040b\134c ro,nosuid,noatime master:1 - ext4 /dev/root rw").unwrap();
        assert_eq!(mount.at, r"/a b\c");
        assert_eq!(mount.flags, MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOATIME);
    }
}
