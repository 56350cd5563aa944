//! Runs that wait for answers of their tool calls.

use std::time::{Duration, Instant};

use serde_json::json;
use thermae_runner::frames::{End, Frame, Kind, Limits, Run};

use super::{Outcome, Runner, limits, program, tool};

/// Limits of a run that may go on for three seconds, and is stopped when it has waited for 0.3 s.
pub fn brief() -> Limits {
    Limits { wall_ms: 3000, grace_ms: 3000, pause_ms: 20_000, pause_after_ms: 300, ..limits() }
}

/// A program that may call `t`, with the limits [`brief`].
pub fn calling(code: &str) -> Run {
    with_tool(program(code))
}

/// The run, which may call `t`, with the limits [`brief`].
pub fn with_tool(run: Run) -> Run {
    Run { limits: brief(), tools: vec![tool("t", &["a"])], ..run }
}

/// What a program needs to speak on the channel itself: `say(message)` sends one, and `call(number)` calls `t`.
pub const FORGER: &str = "
import json, os, struct, time
links = [(int(f), '/proc/self/fd/' + f) for f in os.listdir('/proc/self/fd')]
FD = max(f for f, link in links if os.path.exists(link) and f < 4096 and os.readlink(link).startswith('socket:'))
def say(**message):
    data = json.dumps(message).encode()
    os.write(FD, struct.pack('<I', len(data)) + data)
def call(number, **more):
    say(op='call', call=number, name='t', arguments={}, **more)
def compute(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
";

/// How a run ends whose wall-clock time is over, if it lets itself be interrupted.
pub fn timed_out() -> End {
    End::TimedOut { limit: "wall".into(), soft: true }
}

impl Outcome {
    /// Time that did not count against the wall clock.
    pub fn paused(&self) -> Duration {
        Duration::from_millis(self.exit.as_ref().expect("the run has ended").usage.paused_ms)
    }

    pub fn wall(&self) -> Duration {
        Duration::from_micros(self.exit.as_ref().expect("the run has ended").usage.wall_us)
    }
}

impl Runner {
    /// A runner whose programs find `asyncio` loaded. To import it takes long on a busy machine.
    pub fn warm() -> Self {
        let mut runner = Self::patient();
        let code = "import sys\nprint('asyncio' in sys.modules)\nimport asyncio";
        while runner.python(code).ok() != "True\n" {}
        runner
    }

    /// Waits until that run has waited, and its process is stopped, this often.
    pub fn wait_waits(&mut self, number: u32, times: u32) {
        while self.so_far(number).waits < times {
            assert!(self.so_far(number).exit.is_none(), "{:#?}", self.so_far(number));
            self.step();
        }
    }

    /// Waits until this many signals have come for that run's stopped process, and lets it go on.
    pub fn wake(&mut self, number: u32, times: u32) {
        while self.so_far(number).wakes < times {
            assert!(self.so_far(number).exit.is_none(), "{:#?}", self.so_far(number));
            self.step();
        }
        self.send(&Frame::raw(Kind::Wake, number, Vec::new()));
    }

    /// Lets this time pass. The runner serves another program meanwhile.
    pub fn pass(&mut self, time: Duration) {
        let begun = Instant::now();
        self.python(&format!("import time\ntime.sleep({})", time.as_secs_f64())).ok();
        assert!(begun.elapsed() >= time);
    }

    /// Answers the last call of that run with `true`, once there is one.
    pub fn answer_next(&mut self, run: u32) {
        let at = loop {
            match self.calls.iter().rposition(|(of, _)| *of == run) {
                Some(at) => break at,
                None => self.step(),
            }
        };
        let (_, call) = self.calls.remove(at);
        self.answer(run, call.call, Ok(json!(true)));
    }

    /// Answers the calls that have come so far.
    pub fn answer_all(&mut self) {
        for (run, call) in std::mem::take(&mut self.calls) {
            self.answer(run, call.call, Ok(json!(true)));
        }
    }

    pub fn interrupt(&mut self, number: u32) {
        self.send(&Frame::raw(Kind::Interrupt, number, Vec::new()));
    }

    pub fn charge(&mut self, number: u32) {
        self.send(&Frame::raw(Kind::Charge, number, Vec::new()));
    }

    /// Runs a program whose calls nobody answers.
    pub fn unanswered(&mut self, code: &str) -> Outcome {
        self.run(&calling(code))
    }

    /// The state of a process of that session, such as `T` for a stopped one.
    pub fn state(&mut self, session: &str, pid: &str) -> String {
        let stat = self.beside(&super::beside::argv(session, &["cat", &format!("/proc/{pid}/stat")])).ok();
        stat.rsplit_once(") ").map(|(_, rest)| rest[..1].to_owned()).unwrap_or_default()
    }
}
