//! The short form of the suite, and a check of the page that lists the attacks. `cargo xtask attack` runs the whole
//! suite, with the controls.

use std::ffi::OsString;
use std::process::Command;

use thermae_attacks::{index, program, scenarios};

/// Tries the attacks that don't take seconds. All must hold, and at least `least` must be tried.
fn short(backend: &str, servers: &[(String, String)], least: usize) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thermae-attacks"));
    let set = servers.iter().map(|(name, value)| (name, value));
    let output = command.args(["--quick", "--backend", backend]).envs(set).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let words = String::from_utf8_lossy(&output.stderr);
    let others: Vec<_> = text.lines().filter(|line| !line.starts_with("held")).collect();
    assert!(output.status.success(), "{words}\n{}", others.join("\n"));
    let (tried, held) = last.strip_suffix(" held").and_then(|l| l.split_once(" tried, ")).unwrap();
    assert_eq!(tried, held, "{text}");
    assert!(tried.parse::<usize>().unwrap() >= least, "{last}");
}

#[test]
fn attacks_on_native_containers_hold() {
    short("native", &[], 80);
}

#[test]
fn attacks_that_bash_starts_hold() {
    short("native+bash", &[], 80);
}

#[test]
fn attacks_on_an_ordinary_users_containers_hold() {
    // For an ordinary user, the test above has tried them.
    if rustix::process::geteuid().is_root() {
        short("rootless", &[], 80);
    }
}

#[test]
fn attacks_on_docker_containers_hold() {
    // `cargo xtask test` sets up an engine and an image.
    if std::env::var_os("THERMAE_TEST_DOCKER").is_some() {
        short("docker", &[], 80);
    }
}

#[test]
fn attacks_on_the_command_line_hold() {
    // `cargo xtask test` builds the program.
    if std::env::var_os("THERMAE_TEST_BIN").is_some() {
        short("client", &[], 8);
    }
}

/// Servers for this test alone: two fleets must not share a RabbitMQ.
struct Servers(OsString);

impl Servers {
    fn services(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.0).arg("services").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn start(&self) -> Vec<(String, String)> {
        let lines = self.services(&["test-up", "--set", "attacks", "--only", "rabbitmq,redis", "--print-env"]);
        let pairs = lines.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
        let servers = pairs.filter(|(name, _)| name.starts_with("THERMAE_TEST_AMQP") || *name == "THERMAE_TEST_REDIS");
        servers.map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned())).collect()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = Command::new(&self.0).args(["services", "test-down", "--set", "attacks"]).output();
    }
}

#[test]
fn attacks_of_a_tenant_on_a_fleet_hold() {
    if let (Some(xtask), Some(_)) = (std::env::var_os("THERMAE_TEST_XTASK"), std::env::var_os("THERMAE_TEST_BIN")) {
        let servers = Servers(xtask);
        short("fleet", &servers.start(), 33);
    }
}

#[test]
fn the_page_lists_the_attacks() {
    let file = program::folder().join("../../docs/attacks.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let attacks = program::load(&program::folder()).unwrap();
    let current = index::put_into(&page, &index::markdown(&attacks, &scenarios::load().unwrap()))
        .expect("docs/attacks.md has the index's marks");
    if std::env::var_os("THERMAE_UPDATE").is_some() {
        std::fs::write(&file, current).unwrap();
    } else {
        assert!(page == current, "docs/attacks.md is not current: run this test with THERMAE_UPDATE=1");
    }
}
