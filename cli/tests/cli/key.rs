//! `thermae key`, which hands over to `thermae-gateway`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::thermae::Thermae;

/// A copy of the program, with nothing beside it.
fn alone(dir: &Thermae) -> PathBuf {
    let copy = dir.path().join("bin/thermae");
    std::fs::create_dir_all(dir.path().join("bin")).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_thermae"), &copy).unwrap();
    copy
}

/// Puts a program there that says how it was called.
fn stand_in(dir: &Thermae, name: &str, says: &str) {
    dir.file(name, &format!("#!/bin/sh\necho {says} \"$#\" \"$@\"\nexit 7\n"));
    std::fs::set_permissions(dir.path().join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_gateways_program_gets_all_arguments_and_gives_the_exit_status() {
    let dir = Thermae::new();
    let program = alone(&dir);
    let call = |args: &[&str]| {
        let path = format!("{}:/usr/bin:/bin", dir.path().join("path").display());
        let output = Command::new(&program).args(args).env("PATH", path).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, _, stderr) = call(&["key", "list"]);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("error[no_gateway_program]") && stderr.contains("cargo build"), "{stderr}");

    stand_in(&dir, "path/thermae-gateway", "path");
    let args = ["key", "create", "--tenant", "acme", "--name", "two words", "--help", "-v"];
    let told = "path 8 key create --tenant acme --name two words --help -v\n";
    assert_eq!(call(&args), (Some(7), told.to_owned(), String::new()));
    stand_in(&dir, "bin/thermae-gateway", "beside");
    assert_eq!(call(&["key"]), (Some(7), "beside 1 key\n".to_owned(), String::new()));
}
