//! What `thermae doctor --fix` can change: kernel settings, and the AppArmor profile of Docker's containers.

use std::io::Write;
use std::process::{Command, Stdio};

/// The AppArmor profile, as this program was built with it.
const PROFILE: &str = include_str!("../../../images/apparmor/thermae");

/// A change of the machine's settings that fixes what a check has found. It needs root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Sets a kernel setting, by its name below `/proc/sys` with dots. It lasts until the next boot.
    Sysctl(&'static str, u32),
    /// Loads the AppArmor profile `thermae`. It lasts until the next boot.
    LoadProfile,
}

impl Remedy {
    /// The shell command that makes the same change.
    pub(crate) fn command(self) -> String {
        match self {
            Self::Sysctl(name, value) => format!("sysctl {name}={value}"),
            Self::LoadProfile => "apparmor_parser -r images/apparmor/thermae".to_owned(),
        }
    }

    /// What to do to make the change permanent.
    pub(super) fn keep(self) -> String {
        match self {
            Self::Sysctl(name, value) => format!("write `{name} = {value}` to /etc/sysctl.d/60-thermae.conf"),
            Self::LoadProfile => "copy the profile to /etc/apparmor.d/thermae".to_owned(),
        }
    }

    /// Makes the change. The error says what went wrong.
    pub(super) fn apply(self) -> Result<(), String> {
        match self {
            Self::Sysctl(name, value) => {
                let file = format!("/proc/sys/{}", name.replace('.', "/"));
                std::fs::write(&file, value.to_string()).map_err(|error| format!("{file}: {error}"))
            }
            Self::LoadProfile => load(PROFILE),
        }
    }
}

/// Loads a profile with AppArmor's parser, which reads it from its standard input.
fn load(profile: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "apparmor_parser is not installed (apt install apparmor)".to_owned(),
        _ => format!("apparmor_parser: {error}"),
    };
    let mut parser = Command::new("apparmor_parser")
        .args(["--replace", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = parser.stdin.take() {
        // The parser may refuse the profile before it has read all of it. Then its own message is reported.
        let _ = stdin.write_all(profile.as_bytes());
    }
    let output = parser.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("apparmor_parser: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_can_be_done_by_hand() {
        let sysctl = Remedy::Sysctl("user.max_user_namespaces", 15_000);
        assert_eq!(sysctl.command(), "sysctl user.max_user_namespaces=15000");
        assert!(Remedy::LoadProfile.keep().contains("/etc/apparmor.d"));
        assert!(PROFILE.contains("profile thermae"));
    }

    #[test]
    fn a_setting_that_is_not_there_is_named() {
        let error = Remedy::Sysctl("kernel.no_such_setting", 1).apply().unwrap_err();
        assert!(error.starts_with("/proc/sys/kernel/no_such_setting: "), "{error}");
    }
}
