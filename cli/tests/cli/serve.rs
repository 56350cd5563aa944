//! `thermae serve`, and the page about it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::thermae::Thermae;

const TOKEN: &str = "a-token-of-the-tests";

/// A gateway that serves. It is killed at the end of a test that failed.
struct Serving {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    url: String,
}

impl Serving {
    fn start(thermae: &Thermae, token: Option<&str>) -> Self {
        let mut command = thermae.command(&["serve", "--listen", "127.0.0.1:0", "--slots", "2", "--store", "store"]);
        if let Some(token) = token {
            command.env("THERMAE_TOKEN", token);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let url = line.split_once(" at ").and_then(|(_, rest)| rest.split_once(". ")).map(|(url, _)| url.to_owned());
        let url = url.unwrap_or_else(|| panic!("{line:?}"));
        assert!(line.contains("the embedded fleet (2 slots)"), "{line}");
        Self { child, out, url }
    }

    /// The lines of its greeting up to the command that it proposes.
    fn greeting(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.last().is_none_or(|last: &String| !last.starts_with("curl ")) {
            let mut line = String::new();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "{lines:?}");
            lines.push(line.trim_end().to_owned());
        }
        lines
    }

    /// Asks it to end. Gives its exit status.
    fn end(mut self) -> Option<i32> {
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

/// Runs a script, and gives its output.
fn bash(thermae: &Thermae, script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).current_dir(thermae.path()).env("THERMAE_TOKEN", TOKEN);
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{out}\n{err}");
    out.into_owned()
}

/// The blocks of commands of the page, each with the output that the page shows.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let (mut lines, mut last) = (page.lines(), "");
    while let Some(line) = lines.next() {
        let Some(fence) = line.strip_prefix("```") else { continue };
        let block: String = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        match (fence, last) {
            ("sh", _) => blocks.push((block, String::new())),
            ("text", "sh") => blocks.last_mut().unwrap().1 = block,
            _ => {}
        }
        last = fence;
    }
    blocks
}

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/gateway.md")).unwrap()
}

#[test]
fn the_commands_of_its_page_work() {
    let thermae = Thermae::new();
    let serving = Serving::start(&thermae, Some(TOKEN));
    let blocks = blocks(&page());
    assert!(blocks.len() >= 9, "{blocks:?}");
    // One script, because later blocks use what earlier ones set.
    let mark = "-- the next block --\n";
    let script: String = blocks.iter().map(|(block, _)| format!("{block}printf -- '{mark}'\n")).collect();
    let printed = bash(&thermae, &script.replace("http://127.0.0.1:8420", &serving.url));
    let printed: Vec<&str> = printed.split_terminator(mark).collect();
    for ((block, shown), printed) in blocks.iter().zip(&printed) {
        assert_eq!(printed, shown, "{block}");
    }
    assert_eq!(printed.len(), blocks.len());
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn a_new_token_is_printed_and_the_proposed_command_works() {
    let thermae = Thermae::new();
    let mut serving = Serving::start(&thermae, None);
    let script = serving.greeting().join("\n");
    assert!(script.contains("export THERMAE_TOKEN="), "{script}");
    let printed = bash(&thermae, &script);
    assert!(printed.contains(r#""stdout":"42\n""#), "{printed}");
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn the_page_lists_every_code() {
    let page = page();
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
