//! Checks the containers' seccomp and AppArmor profiles without loading them into an engine or a kernel.

use std::{collections::BTreeSet, process::Command};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{paths, services::packages};

/// System calls that sandboxes need, beyond those of a program without privileges.
const NEEDED: [&str; 7] = ["clone", "mount", "pivot_root", "sethostname", "setns", "umount2", "unshare"];
/// System calls that no job may ever reach.
const NEVER: [&str; 14] = [
    "bpf",
    "delete_module",
    "finit_module",
    "init_module",
    "io_uring_setup",
    "kexec_load",
    "keyctl",
    "open_by_handle_at",
    "perf_event_open",
    "process_vm_writev",
    "ptrace",
    "reboot",
    "swapon",
    "userfaultfd",
];

/// Checks that the seccomp profile denies by default, allows `NEEDED`, and allows nothing from `NEVER`.
pub(crate) fn seccomp() -> Result<()> {
    let file = paths::root().join("images/seccomp.json");
    let profile: Value = serde_json::from_slice(&std::fs::read(&file)?).context("read images/seccomp.json")?;
    ensure!(profile["defaultAction"] == "SCMP_ACT_ERRNO", "the default must be to deny");
    let rules = profile["syscalls"].as_array().context("it has no rules")?;
    let mut allowed = BTreeSet::new();
    for rule in rules {
        let names = rule["names"].as_array().context("a rule has no names")?.iter().filter_map(Value::as_str);
        match rule["action"].as_str() {
            Some("SCMP_ACT_ALLOW") => allowed.extend(names),
            Some("SCMP_ACT_ERRNO") => {
                ensure!(rule["errnoRet"] == 38, "an explicit denial must be ENOSYS, so that programs fall back");
            }
            other => bail!("an unexpected action: {other:?}"),
        }
    }
    for name in NEEDED {
        ensure!(allowed.contains(name), "{name} is needed and not allowed");
    }
    for name in NEVER.into_iter().chain(["clone3"]) {
        ensure!(!allowed.contains(name), "{name} is allowed");
    }
    Ok(())
}

/// Checks that the AppArmor parser can compile the profile.
pub(crate) fn apparmor() -> Result<()> {
    let parser = packages::ensure("apparmor_parser", "apparmor")?;
    let output = Command::new(parser)
        .args(["--skip-kernel-load", "--skip-cache"])
        .arg(paths::root().join("images/apparmor/thermae"))
        .output()
        .context("start apparmor_parser")?;
    ensure!(output.status.success(), "apparmor_parser: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
