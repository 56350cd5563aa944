//! Commands and file operations beside a session's program.

use serde::de::DeserializeOwned;
use thermae_runner::frames::{Beside, Command, End, Failure, FileOp, Frame, Kind, Program, Work};

use super::{Outcome, Runner};

/// The window of the commands here, in bytes.
pub const WINDOW: u32 = 1 << 20;

fn of(session: &str, work: Work) -> Beside {
    Beside { session: session.into(), work, wall_ms: 120_000, output_bytes: None, window: WINDOW }
}

fn command(session: &str, program: Program) -> Beside {
    of(session, Work::Command(Command { program, cwd: None, env: Default::default() }))
}

pub fn argv(session: &str, words: &[&str]) -> Beside {
    command(session, Program::Argv(words.iter().map(|word| (*word).to_owned()).collect()))
}

pub fn shell(session: &str, line: &str) -> Beside {
    command(session, Program::Shell(line.to_owned()))
}

pub fn file(session: &str, op: FileOp) -> Beside {
    of(session, Work::File(op))
}

impl Outcome {
    /// The result of a file operation that must have succeeded.
    #[track_caller]
    pub fn result<T: DeserializeOwned>(&self) -> T {
        self.ok();
        serde_json::from_str(self.exit.as_ref().unwrap().value.as_ref().expect("a result").get()).unwrap()
    }

    /// The failure of what must have failed.
    #[track_caller]
    pub fn failure(&self) -> &Failure {
        match self.end() {
            End::Failed(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    /// The name of its error.
    #[track_caller]
    pub fn errno(&self) -> &str {
        &self.failure().errno
    }
}

impl Runner {
    /// Begins a command or file operation and returns its number.
    pub fn begin_beside(&mut self, beside: &Beside) -> u32 {
        let number = self.next;
        self.next += 1;
        self.outcomes.insert(number, Outcome::default());
        self.send(&Frame::json(Kind::Beside, number, beside).unwrap());
        number
    }

    pub fn input(&mut self, number: u32, bytes: &[u8]) {
        self.send(&Frame::raw(Kind::Stdin, number, bytes));
    }

    pub fn end_input(&mut self, number: u32) {
        self.send(&Frame::raw(Kind::StdinEnd, number, Vec::new()));
    }

    pub fn allow(&mut self, number: u32, bytes: u64) {
        self.send(&Frame::json(Kind::Credit, number, &bytes).unwrap());
    }

    pub fn signal(&mut self, number: u32, signal: i32) {
        self.send(&Frame::json(Kind::Signal, number, &signal).unwrap());
    }

    pub fn kill(&mut self, number: u32) {
        self.send(&Frame::raw(Kind::Kill, number, Vec::new()));
    }

    /// Runs a command or file operation with this input. Input and output are less than the window.
    pub fn beside_with(&mut self, input: &[u8], beside: &Beside) -> Outcome {
        let number = self.begin_beside(beside);
        self.input(number, input);
        self.end_input(number);
        self.wait(number)
    }

    pub fn beside(&mut self, beside: &Beside) -> Outcome {
        self.beside_with(b"", beside)
    }

    pub fn file(&mut self, session: &str, op: FileOp) -> Outcome {
        self.beside(&file(session, op))
    }

    /// Takes the standard output that has come so far.
    pub fn take_output(&mut self, number: u32) -> Vec<u8> {
        self.outcomes.get_mut(&number).map(|outcome| std::mem::take(&mut outcome.stdout)).unwrap_or_default()
    }

    /// What that run has sent so far.
    pub fn so_far(&self, number: u32) -> &Outcome {
        &self.outcomes[&number]
    }
}
