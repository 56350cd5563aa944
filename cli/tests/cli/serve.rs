//! `thermae serve`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use thermae_testkit::page::text;

use crate::page;
use crate::thermae::Thermae;

pub(crate) const TOKEN: &str = "a-token-of-the-tests";

/// A gateway that serves. It is killed at the end of a test that failed.
pub(crate) struct Serving {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    first: String,
    pub(crate) url: String,
}

impl Serving {
    pub(crate) fn start(thermae: &Thermae, token: Option<&str>, options: &[&str]) -> Self {
        let mut command = thermae.command(&["serve", "--listen", "127.0.0.1:0", "--slots", "2", "--store", "store"]);
        command.args(options);
        if let Some(token) = token {
            command.env("THERMAE_TOKEN", token);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        let url = first.split_once(" at ").and_then(|(_, rest)| rest.split_once(". ")).map(|(url, _)| url.to_owned());
        let url = url.unwrap_or_else(|| panic!("{first:?}"));
        assert!(first.contains("the embedded fleet (2 slots)"), "{first}");
        Self { child, out, first, url }
    }

    /// The lines of its greeting up to the command that it proposes.
    pub(crate) fn greeting(&mut self) -> Vec<String> {
        let mut lines = vec![self.first.trim_end().to_owned()];
        while lines.last().is_none_or(|last| !last.starts_with("curl ")) {
            let mut line = String::new();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "{lines:?}");
            lines.push(line.trim_end().to_owned());
        }
        lines
    }

    /// Asks it to end. Gives its exit status.
    pub(crate) fn end(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_new_token_is_printed_and_the_proposed_command_works() {
    let thermae = Thermae::new();
    let mut serving = Serving::start(&thermae, None, &[]);
    let script = serving.greeting()[1..].join("\n");
    assert!(script.contains("export THERMAE_TOKEN="), "{script}");
    let printed = page::bash(&thermae, &[], &script);
    assert!(printed.contains(r#""stdout":"42\n""#), "{printed}");
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn the_page_lists_every_code() {
    let page = text("docs/gateway.md");
    for code in thermae_gateway::CODES {
        let row = format!("| `{}` | {} | {} |", code.code, code.status, code.meaning);
        assert!(page.contains(&row), "docs/gateway.md lacks the row {row}");
    }
    assert_eq!(page.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 4).count(), {
        // The table of limits has a row that begins with a code's mark, too.
        thermae_gateway::CODES.len() + 1
    });
}

#[test]
fn what_can_not_be_served_is_said() {
    let thermae = Thermae::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    thermae.file("token", "short\n");
    for (args, code) in [
        (&["serve", "--listen", &taken][..], "bad_listen"),
        (&["serve", "--listen", "127.0.0.1:0", "--token", "short"], "bad_token"),
        (&["serve", "--listen", "127.0.0.1:0", "--token-file", "token"], "bad_token"),
        (&["serve", "--listen", "127.0.0.1:0", "--token-file", "nowhere"], "bad_token"),
        (&["serve", "--slots", "2", "--amqp", "amqp://a@127.0.0.1"], "usage"),
    ] {
        let answer = thermae.call(args);
        assert!(answer.status == 2 && answer.stderr.contains(&format!("error[{code}]")), "{args:?}: {answer:?}");
    }
}
