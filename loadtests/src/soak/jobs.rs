//! The jobs of a soak: honest ones with the answers that they must give, and hostile ones with the ends that they may
//! have.

use thermae_schemas::{ErrorCode, Job, LimitRequest, Outcome, SessionName, SessionRequest, Status};

use crate::cases::{Case, LEAVE, LOOK, describe};

/// A kind of job.
#[derive(Debug)]
pub(super) struct Kind {
    /// The kind's name in the report.
    pub(super) name: &'static str,
    /// Whether the jobs mean no harm, so that their answers must be right.
    pub(super) honest: bool,
    /// How many jobs of each round are of this kind.
    pub(super) share: u32,
    code: Code,
    limits: LimitRequest,
    /// Whether the outcome of the job with this number is right.
    right: fn(&Outcome, u64) -> bool,
}

#[derive(Debug, Clone, Copy)]
enum Code {
    Text(&'static str),
    /// `{n}` is replaced by the job's number.
    Numbered(&'static str),
    /// Runs in one of a few sessions.
    Session(&'static str),
    Tools,
}

/// Number of sessions that the session jobs share.
pub(super) const SESSIONS: u64 = 4;

const NO_LIMITS: LimitRequest = LimitRequest {
    wall_ms: None,
    cpu_ms: None,
    memory_bytes: None,
    pids: None,
    output_bytes: None,
    tool_ms: None,
    pause_ms: None,
};

const fn wall(ms: u64) -> LimitRequest {
    LimitRequest { wall_ms: Some(ms), ..NO_LIMITS }
}

fn prints(outcome: &Outcome, text: &str) -> bool {
    outcome.status == Status::Succeeded && outcome.stdout == text
}

fn ends(outcome: &Outcome, status: Status, code: ErrorCode) -> bool {
    outcome.status == status && outcome.error.as_ref().is_some_and(|e| e.code == code)
}

const fn honest(name: &'static str, share: u32, code: Code, right: fn(&Outcome, u64) -> bool) -> Kind {
    Kind { name, honest: true, share, code, limits: NO_LIMITS, right }
}

const fn hostile(
    name: &'static str,
    share: u32,
    limits: LimitRequest,
    code: &'static str,
    right: fn(&Outcome, u64) -> bool,
) -> Kind {
    Kind { name, honest: false, share, code: Code::Text(code), limits, right }
}

/// All kinds.
pub(super) static KINDS: [Kind; 24] = [
    honest("square", 20, Code::Numbered("print({n} * {n})"), |o, n| prints(o, &format!("{}\n", n * n))),
    honest("look", 12, Code::Text(LOOK), |o, _| prints(o, "clean\n")),
    honest("tools", 6, Code::Tools, |o, _| prints(o, "45\n")),
    honest("session", 6, Code::Session("n = globals().get('n', 0) + 1\nprint(n)"), |o, _| {
        o.status == Status::Succeeded
    }),
    honest(
        "gather",
        4,
        Code::Text("import asyncio\nprint(await asyncio.gather(*(asyncio.sleep(0, i) for i in range(5))))"),
        |o, _| prints(o, "[0, 1, 2, 3, 4]\n"),
    ),
    honest(
        "threads",
        3,
        Code::Text(
            "from concurrent.futures import ThreadPoolExecutor as P\nwith P(4) as p: print(sum(p.map(abs, range(-50, 0))))",
        ),
        |o, _| prints(o, "1275\n"),
    ),
    honest(
        "subprocess",
        3,
        Code::Text(
            "import subprocess\nprint(subprocess.run(['sh', '-c', 'echo a; echo b | cat'], capture_output=True, text=True).stdout, end='')",
        ),
        |o, _| prints(o, "a\nb\n"),
    ),
    honest(
        "files",
        4,
        Code::Numbered(
            "open('/workspace/a', 'w').write('{n}' * 1000)\nprint(len(open('/workspace/a').read()) // 1000, '{n}')",
        ),
        |o, n| prints(o, &format!("{} {n}\n", n.to_string().len())),
    ),
    honest("output", 3, Code::Text("print('x' * 200_000)"), |o, _| {
        o.status == Status::Succeeded && o.stdout.len() == 200_001 && o.stdout.bytes().take(200_000).all(|b| b == b'x')
    }),
    honest("raise", 4, Code::Text("print('before')\n1 / 0"), |o, _| {
        let error = o.error.as_ref();
        ends(o, Status::Failed, ErrorCode::CodeRaised)
            && o.stdout == "before\n"
            && error.and_then(|e| e.exception.as_deref()) == Some("ZeroDivisionError")
    }),
    hostile("litter", 8, NO_LIMITS, LEAVE, |o, _| prints(o, "left\n")),
    hostile(
        "daemons",
        4,
        NO_LIMITS,
        "import os, signal, time\nfor _ in range(8):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n            [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]\n            time.sleep(1000)\n        os._exit(0)\nprint('left')",
        |o, _| prints(o, "left\n"),
    ),
    hostile(
        "fork bomb",
        1,
        wall(300),
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        |o, _| o.status == Status::TimedOut,
    ),
    hostile(
        "thread bomb",
        1,
        wall(300),
        "import threading, time\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n    except RuntimeError: pass",
        |o, _| matches!(o.status, Status::TimedOut | Status::OutOfMemory),
    ),
    hostile(
        "memory hog",
        2,
        LimitRequest { memory_bytes: Some(64 << 20), ..NO_LIMITS },
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        |o, _| ends(o, Status::OutOfMemory, ErrorCode::OutOfMemory),
    ),
    hostile("output flood", 2, NO_LIMITS, "while True: print('y' * 1000)", |o, _| {
        ends(o, Status::OutputLimit, ErrorCode::OutputLimit)
    }),
    hostile(
        "disk filler",
        2,
        NO_LIMITS,
        "n = 0\ntry:\n    while True:\n        n += 1\n        open(f'/workspace/{n}', 'wb').write(b'z' * (1 << 20))\nexcept OSError as e: print(e.errno)",
        |o, _| prints(o, "28\n"),
    ),
    hostile(
        "descriptor hog",
        1,
        NO_LIMITS,
        "import os\nkept = []\ntry:\n    while True: kept.append(os.pipe())\nexcept OSError as e: print(e.errno)",
        |o, _| prints(o, "24\n"),
    ),
    hostile("spinner", 1, LimitRequest { cpu_ms: Some(200), ..NO_LIMITS }, "while True: pass", |o, _| {
        ends(o, Status::TimedOut, ErrorCode::CpuTimeout)
    }),
    hostile(
        "deaf",
        2,
        wall(200),
        "import signal, time\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass",
        |o, _| ends(o, Status::TimedOut, ErrorCode::WallTimeout),
    ),
    hostile("stopped", 1, wall(200), "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", |o, _| {
        ends(o, Status::TimedOut, ErrorCode::WallTimeout)
    }),
    hostile("suicide", 4, NO_LIMITS, "import os\nos.kill(os.getpid(), 9)", |o, _| {
        ends(o, Status::Failed, ErrorCode::CodeKilled) && o.signal == Some(9)
    }),
    hostile("crash", 3, NO_LIMITS, "import ctypes\nctypes.string_at(0)", |o, _| {
        ends(o, Status::Failed, ErrorCode::CodeKilled) && o.signal == Some(11)
    }),
    // A job that writes into the channel of its own process harms itself at most.
    hostile(
        "forger",
        3,
        NO_LIMITS,
        "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'\\xff' * 100)\n    except OSError: pass",
        |o, _| matches!(o.status, Status::Succeeded | Status::Failed),
    ),
];

impl Kind {
    /// The kind of job `number`. The kinds take turns by their shares.
    pub(super) fn of(number: u64) -> &'static Self {
        let total: u64 = KINDS.iter().map(|k| u64::from(k.share)).sum();
        // A step that is coprime to the total spreads the jobs of each kind evenly over a round.
        let step = (61..).find(|step| gcd(*step, total) == 1).unwrap_or(1);
        let mut at = number * step % total;
        for kind in &KINDS {
            match at.checked_sub(kind.share.into()) {
                Some(rest) => at = rest,
                None => return kind,
            }
        }
        &KINDS[0]
    }

    /// Job `number`, of this kind.
    pub(super) fn job(&self, run: &str, number: u64) -> Job {
        let mut job = match self.code {
            Code::Text(code) => Job::python(code),
            Code::Numbered(code) => Job::python(code.replace("{n}", &number.to_string())),
            Code::Session(code) => {
                let name = SessionName::new(session(run, number)).ok();
                Job { session: name.map(SessionRequest::new), ..Job::python(code) }
            }
            Code::Tools => Case::Tools10.job(""),
        };
        job.limits = self.limits.clone();
        job
    }

    /// Checks an outcome. The error says what is wrong.
    pub(super) fn check(&self, number: u64, outcome: &Outcome) -> Result<(), String> {
        if (self.right)(outcome, number) { Ok(()) } else { Err(format!("{}: {}", self.name, describe(outcome))) }
    }

    /// Whether these jobs share sessions.
    pub(super) fn in_session(&self) -> bool {
        matches!(self.code, Code::Session(_))
    }
}

/// Name of the session for job `number`.
pub(super) fn session(run: &str, number: u64) -> String {
    format!("soak-{run}-{}", number % SESSIONS)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_holds_every_kind_by_its_share() {
        let total: u32 = KINDS.iter().map(|k| k.share).sum();
        for kind in &KINDS {
            let there = (0..u64::from(total)).filter(|n| std::ptr::eq(Kind::of(*n), kind)).count();
            assert_eq!(there, kind.share as usize, "{}", kind.name);
        }
    }

    #[test]
    fn every_session_gets_jobs() {
        let numbers = (0..1000).filter(|n| Kind::of(*n).in_session());
        let used: std::collections::BTreeSet<u64> = numbers.map(|n| n % SESSIONS).collect();
        assert_eq!(used.len() as u64, SESSIONS);
    }
}
