//! A container is proven clean after a run. If it is not clean, the proof says what is there.

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Runner, limits, program};
use thermae_runner::frames::{End, Limits};

/// Leaves whatever a program can leave.
const LITTER: &str = "
import os, socket, subprocess, sys
for d in ('/tmp', '/workspace', '/dev/shm'):
    open(d + '/left', 'wb').write(b'x' * 100_000)
kept = socket.socket(socket.AF_UNIX); kept.bind('\\0left'); kept.listen()
for n in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 3)
            import signal, time
            [signal.signal(s, signal.SIG_IGN) for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
            time.sleep(1000)
        os._exit(0)
heap = bytearray(20 << 20)
print('left')
";

#[test]
fn nothing_is_left_of_a_program_that_leaves_all_it_can() {
    let mut runner = Runner::new();
    for _ in 0..3 {
        assert_eq!(runner.python(LITTER).ok(), "left\n");
        let asked = runner.ask_proof();
        assert_eq!(runner.wait_proof(asked), Vec::<String>::new());
    }
}

#[test]
fn nothing_is_left_of_runs_that_are_ended_by_force() {
    let mut runner = Runner::new();
    let short = Limits { wall_ms: 100, grace_ms: 50, memory_bytes: 64 << 20, output_bytes: 1000, ..limits() };
    for code in [
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "while True: print('x' * 100)",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "import os\nos.kill(os.getpid(), 9)",
    ] {
        let mut run = program(code);
        run.limits = short;
        let outcome = runner.run(&run);
        assert_ne!(outcome.end(), &End::Exited { code: 0 });
        let asked = runner.ask_proof();
        assert_eq!(runner.wait_proof(asked), Vec::<String>::new(), "{code}");
    }
}

#[test]
fn a_proof_waits_for_the_run_and_covers_earlier_requests() {
    let mut runner = Runner::new();
    let run = runner.begin(&program("input()\n"));
    runner.wait_started(run);
    let (first, second) = (runner.ask_proof(), runner.ask_proof());
    let hung = runner.begin(&program("import time\nprint('on', flush=True)\ntime.sleep(100)"));
    runner.wait_output(hung, "on");
    runner.ping();
    assert!(!runner.has_proof(first), "a run goes on");
    runner.send(&thermae_runner::frames::Frame::raw(thermae_runner::frames::Kind::Kill, hung, Vec::new()));
    runner.wait(hung);
    assert_eq!(runner.wait_proof(second), Vec::<String>::new());
    assert!(!runner.has_proof(first), "one answer is enough");
}

/// A process that the test has put somewhere. It is killed in the end.
struct Intruder(std::process::Child);

impl Drop for Intruder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The pid of the runner itself, which its supervisor has started.
fn pid_of(runner: &Runner) -> String {
    let supervisor = runner.child.id();
    let children = std::fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).unwrap();
    children.split_whitespace().next().expect("the runner").to_owned()
}

/// Puts a process into the container that belongs to no sandbox.
fn intrude(runner: &Runner) -> Intruder {
    let mut enter = Command::new("nsenter");
    enter.args(["--target", &pid_of(runner), "--pid"]);
    if !rustix::process::geteuid().is_root() {
        enter.args(["--user", "--preserve-credentials"]);
    }
    // It speaks once it runs in the container, then stays until its input ends.
    enter.args(["sh", "-c", "echo in; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    spoken(enter)
}

/// Starts a command and waits until it says that it is in its place.
fn spoken(mut command: Command) -> Intruder {
    let mut intruder = Intruder(command.spawn().unwrap());
    let mut line = [0; 3];
    std::io::Read::read_exact(intruder.0.stdout.as_mut().unwrap(), &mut line).unwrap();
    intruder
}

/// The positive control of the proof: a process that really should not be there is found, and no longer once it is
/// gone.
#[test]
fn a_process_that_belongs_to_no_sandbox_is_found() {
    let mut runner = Runner::new();
    let intruder = intrude(&runner);
    let asked = runner.ask_proof();
    let found = runner.wait_proof(asked);
    assert!(found.len() == 1 && found[0].contains("belongs to no sandbox"), "{found:?}");
    drop(intruder);
    let asked = runner.ask_proof();
    assert_eq!(runner.wait_proof(asked), Vec::<String>::new());
}

#[test]
fn nothing_is_left_of_files_that_went_in_and_out() {
    let mut runner = Runner::new();
    let large = vec![7; 20 << 20];
    let code = "import os\nos.rename('large', 'artifacts/large')\nos.symlink('/etc', 'artifacts/link')\nos.mkfifo('artifacts/f')";
    for _ in 0..3 {
        let outcome = runner.run_with(&[("large", &large), ("artifacts/in", b"x")], &program(code));
        assert_eq!((outcome.left().len(), outcome.left_out().len()), (1, 2));
        let asked = runner.ask_proof();
        assert_eq!(runner.wait_proof(asked), Vec::<String>::new());
    }
}

/// CPU time of a process so far, in clock ticks of 10 ms.
fn ticks(pid: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_run_that_comes_between_two_looks_costs_no_looking() {
    let mut runner = Runner::new();
    let (intruder, pid) = (intrude(&runner), pid_of(&runner));
    let asked = runner.ask_proof();
    // The first look takes place as soon as there is nothing else to do, and finds the intruder. The next one is due
    // soon.
    (0..50).for_each(|_| runner.ping());
    let run = runner.begin(&program("import time\nprint('on', flush=True)\ntime.sleep(1.5)"));
    runner.wait_output(run, "on");
    let before = ticks(&pid);
    runner.wait(run);
    assert!(ticks(&pid) - before < 50, "the runner was busy for {} ticks of the 150", ticks(&pid) - before);
    drop(intruder);
    assert_eq!(runner.wait_proof(asked), Vec::<String>::new());
}

/// Holds the process of that name with ptrace: it can be killed, but it is not gone before this program ends.
const HOLD: &str = "
import ctypes, os, sys
def named(pid):
    try:
        return open(f'/proc/{pid}/comm').read().strip() == sys.argv[1]
    except OSError:
        return False
libc, seize = ctypes.CDLL(None, use_errno=True), 0x4206
libc.ptrace.argtypes = [ctypes.c_long] * 4
held = [libc.ptrace(seize, int(pid), 0, 0) for pid in os.listdir('/proc') if pid.isdigit() and named(pid)]
assert held == [0], (held, os.strerror(ctypes.get_errno()))
print('in', flush=True)
sys.stdin.read()
";

#[test]
fn a_sandbox_that_does_not_die_refuses_the_next_run_and_is_told_of() {
    let mut runner = Runner::new();
    let name = format!("held-{}", std::process::id());
    let code = format!(
        "import ctypes, os, time\nif os.fork(): time.sleep(600)\nctypes.CDLL(None).prctl(15, b'{name}')\nprint('on', flush=True)\ntime.sleep(600)"
    );
    let run = runner.begin(&program(&code));
    runner.wait_output(run, "on");
    let mut hold = Command::new("python3");
    hold.args(["-c", HOLD, &name]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let holder = spoken(hold);
    runner.send(&thermae_runner::frames::Frame::raw(thermae_runner::frames::Kind::Kill, run, Vec::new()));
    runner.wait(run);
    // The first run waits for as long as a dying sandbox may take. The second one needn't.
    for _ in 0..2 {
        let outcome = runner.run(&program("print('never')"));
        assert!(matches!(outcome.end(), End::NotStarted { reason } if reason.contains("not dead")), "{outcome:?}");
    }
    let asked = runner.ask_proof();
    let found = runner.wait_proof(asked);
    assert!(found.iter().any(|text| text.contains("not dead")), "{found:?}");
    drop(holder);
    let released = Instant::now();
    loop {
        let asked = runner.ask_proof();
        match runner.wait_proof(asked) {
            found if found.is_empty() => break,
            found => assert!(released.elapsed() < Duration::from_secs(60), "{found:?}"),
        }
    }
    assert_eq!(runner.python("print('on again')").ok(), "on again\n");
}
