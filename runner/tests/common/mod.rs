//! Plays the worker for tests: starts the real runner behind a native outer wall and exchanges frames with it.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]

pub mod beside;
mod outcome;
pub mod waiting;

use std::collections::{BTreeMap, HashMap};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub use outcome::{Left, Outcome};
use serde_json::value::RawValue;
use thermae_runner::frames::{
    ArtifactLimits, Checkpoint, Frame, Input, Kind, LanguageSetup, Limits, Parameter, ParameterKind, Part, Place,
    Proof, Ready, Run, Setup, Tool, ToolCall, ToolFailure, ToolResult, WIRE,
};
use thermae_runner::outer::Spec;
use thermae_testkit::peer::Peer;

/// Longer than anything here takes, also on a busy machine: a test that waits this long has failed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// A runner and the socket to it.
pub struct Runner {
    pub child: Child,
    pub ready: Ready,
    peer: Peer,
    outcomes: HashMap<u32, Outcome>,
    calls: Vec<(u32, ToolCall)>,
    closed: Vec<String>,
    pongs: u32,
    proofs: Vec<(u32, Proof)>,
    next: u32,
}

/// Limits that no program here reaches because the machine is busy. A test whose subject is a limit sets it.
pub fn limits() -> Limits {
    Limits {
        wall_ms: 120_000,
        pause_ms: 120_000,
        pause_after_ms: 300,
        grace_ms: 500,
        cpu_ms: 60_000,
        memory_bytes: 256 << 20,
        pids: 64,
        output_bytes: 1 << 20,
    }
}

/// Python with this preload list.
pub fn python(spec: &Spec, preload: &[&str], preload_eager: bool) -> LanguageSetup {
    let preload = preload.iter().map(|module| (*module).to_owned()).collect();
    let path = spec.interpreter.clone();
    let options = thermae_runner::PythonOptions { path, python_path: Vec::new(), preload, preload_eager };
    LanguageSetup { name: "python".into(), options: serde_json::to_value(options).unwrap() }
}

/// A set-up whose only language is Python with this preload list.
pub fn preloading(spec: &Spec, preload: &[&str], preload_eager: bool) -> Setup {
    Setup { languages: vec![python(spec, preload, preload_eager)], ..setup(spec) }
}

pub fn setup(spec: &Spec) -> Setup {
    Setup {
        wire: WIRE,
        languages: vec![
            python(spec, &[], true),
            LanguageSetup { name: "bash".into(), options: serde_json::Value::Null },
        ],
        spares: 1,
        disk_bytes: 32 << 20,
        artifacts: ArtifactLimits::default(),
        ceiling: limits(),
        nested: true,
    }
}

pub fn spec() -> Spec {
    let mut spec = Spec::for_python(None).expect("an interpreter");
    spec.memory_bytes = Some(1 << 30);
    spec.pids = Some(512);
    spec
}

pub fn program(code: &str) -> Run {
    Run {
        language: "python".into(),
        code: code.into(),
        argv: Vec::new(),
        stdin: None,
        env: BTreeMap::new(),
        inputs: BTreeMap::new(),
        place: Place::Fresh,
        limits: limits(),
        tools: Vec::new(),
        sync_tools: false,
        follow: false,
    }
}

pub fn bash(code: &str) -> Run {
    Run { language: "bash".into(), ..program(code) }
}

pub fn bash_session(name: &str, code: &str) -> Run {
    Run { language: "bash".into(), ..session(name, code) }
}

pub fn session(name: &str, code: &str) -> Run {
    Run { place: Place::Session { session: name.into(), create: true }, ..program(code) }
}

/// A tool whose parameters must all be given.
pub fn tool(name: &str, parameters: &[&str]) -> Tool {
    let parameter = |name: &&str| Parameter { name: (*name).into(), kind: ParameterKind::default(), required: true };
    Tool {
        name: name.into(),
        alias: name.replace('.', "_"),
        description: String::new(),
        parameters: parameters.iter().map(parameter).collect(),
        others: false,
        input_schema: None,
        output_schema: None,
        raw: false,
        hidden: false,
    }
}

pub fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

impl Runner {
    pub fn new() -> Self {
        let spec = spec();
        Self::start(&spec, setup(&spec))
    }

    pub fn start(spec: &Spec, setup: Setup) -> Self {
        Self::launch(Command::new(env!("CARGO_BIN_EXE_thermae-runner")), Some(spec), setup)
    }

    /// Starts the runner with `command`, to which the runner's arguments are appended. Without a specification, the
    /// runner takes its container for one that Docker made.
    pub fn launch(mut command: Command, spec: Option<&Spec>, setup: Setup) -> Self {
        let dir = socket_dir();
        let path = dir.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        command.arg("--connect").arg(&path);
        if let Some(spec) = spec {
            command.arg("--outer").arg(serde_json::to_string(spec).unwrap());
        }
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let (socket, _) = listener.accept().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        let mut peer = Peer::new(socket, ANSWER_TIMEOUT).unwrap();
        let ready = peer.set_up(&setup).unwrap();
        Self {
            child,
            ready,
            peer,
            outcomes: HashMap::new(),
            calls: Vec::new(),
            closed: Vec::new(),
            pongs: 0,
            proofs: Vec::new(),
            next: 1,
        }
    }

    /// Starts a runner as an ordinary user, who may not make control groups. `None` if this process is not root, and so
    /// can't become that user.
    pub fn ordinary() -> Option<Self> {
        use std::os::unix::process::CommandExt;
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let mut spec =
            Spec::for_python(Some(std::path::Path::new("/usr/bin/python3"))).expect("the system's interpreter");
        spec.memory_bytes = Some(1 << 30);
        // The build's directory may be closed to other users.
        let dir = socket_dir();
        let binary = dir.join("runner");
        std::fs::copy(env!("CARGO_BIN_EXE_thermae-runner"), &binary).unwrap();
        let mut command = Command::new(&binary);
        command.uid(65_533).gid(65_533);
        let runner = Self::launch(command, Some(&spec), setup(&spec));
        std::fs::remove_dir_all(dir).unwrap();
        Some(runner)
    }

    pub fn send(&mut self, frame: &Frame) {
        self.peer.send(frame).unwrap();
    }

    pub fn frame(&mut self) -> Frame {
        self.peer.frame().expect("the runner answers in time")
    }

    /// Reads one frame and keeps it with its run.
    pub fn step(&mut self) {
        let frame = self.frame();
        if frame.kind == Kind::Verified {
            return self.proofs.push((frame.run, frame.parse().unwrap()));
        }
        let outcome = self.outcomes.entry(frame.run).or_default();
        assert!(outcome.exit.is_none() || frame.run == 0, "{:?} after the exit of run {}", frame.kind, frame.run);
        match frame.kind {
            Kind::Started => outcome.started = true,
            Kind::Stdout => outcome.stdout.extend(&frame.body),
            Kind::Stderr => outcome.stderr.extend(&frame.body),
            // What a job displays need not be JSON that can be read.
            Kind::Display => outcome.displays.push(frame.parse().unwrap_or_default()),
            Kind::ToolCall => self.calls.push((frame.run, frame.parse().unwrap())),
            Kind::Artifact => {
                outcome.artifacts.push(Left { head: frame.parse().unwrap(), bytes: Vec::new(), end: None });
            }
            Kind::ArtifactData => outcome.artifacts.last_mut().unwrap().bytes.extend(&frame.body),
            Kind::ArtifactEnd => outcome.artifacts.last_mut().unwrap().end = Some(frame.parse().unwrap()),
            Kind::Part => outcome.parts.push((frame.parse().unwrap(), Vec::new())),
            Kind::PartData => outcome.parts.last_mut().unwrap().1.extend(&frame.body),
            Kind::Exit => outcome.exit = Some(frame.parse().unwrap()),
            Kind::SessionClosed => self.closed.push(String::from_utf8(frame.body).unwrap()),
            Kind::Credit => outcome.credit += frame.parse::<u64>().unwrap(),
            Kind::Waits => outcome.waits += 1,
            Kind::Stays => outcome.stays += 1,
            Kind::Wakes => outcome.wakes += 1,
            Kind::Pong => self.pongs += 1,
            other => panic!("{other:?}: {}", String::from_utf8_lossy(&frame.body)),
        }
    }

    /// Sends a run and returns its number.
    pub fn begin(&mut self, run: &Run) -> u32 {
        let number = self.next;
        self.next += 1;
        self.outcomes.insert(number, Outcome::default());
        self.send(&Frame::json(Kind::Run, number, run).unwrap());
        number
    }

    /// A runner whose runs may take a minute to end after an interrupt.
    pub fn patient() -> Self {
        let spec = spec();
        let ceiling = Limits { grace_ms: 60_000, ..limits() };
        Self::start(&spec, Setup { ceiling, ..setup(&spec) })
    }

    /// Sends a run with these input files (paths and contents) and returns its number.
    pub fn begin_with(&mut self, files: &[(&str, &[u8])], run: &Run) -> u32 {
        for (path, bytes) in files {
            let (path, session) = path.strip_prefix("/session/").map_or((*path, false), |path| (path, true));
            let input =
                Input { path: path.into(), session, executable: path.ends_with(".sh"), size: bytes.len() as u64 };
            self.send(&Frame::json(Kind::Input, self.next, &input).unwrap());
            for chunk in bytes.chunks(100_000) {
                self.send(&Frame::raw(Kind::InputData, self.next, chunk));
            }
        }
        self.begin(run)
    }

    /// Takes a checkpoint of a session with these bounds on its parts and bytes.
    pub fn checkpoint(&mut self, name: &str, parts: u32, bytes: u64) -> Outcome {
        let number = self.begin_checkpoint(name, parts, bytes);
        self.wait(number)
    }

    pub fn begin_checkpoint(&mut self, name: &str, parts: u32, bytes: u64) -> u32 {
        let number = self.next;
        self.next += 1;
        self.outcomes.insert(number, Outcome::default());
        let wanted = Checkpoint { session: name.into(), parts, bytes };
        self.send(&Frame::json(Kind::Checkpoint, number, &wanted).unwrap());
        number
    }

    /// Sends a run whose session begins with these parts, and returns its number.
    pub fn begin_from(&mut self, parts: &[(Part, Vec<u8>)], files: &[(&str, &[u8])], run: &Run) -> u32 {
        for (part, bytes) in parts {
            self.send(&Frame::json(Kind::Part, self.next, part).unwrap());
            for chunk in bytes.chunks(100_000) {
                self.send(&Frame::raw(Kind::PartData, self.next, chunk));
            }
        }
        self.begin_with(files, run)
    }

    pub fn run_with(&mut self, files: &[(&str, &[u8])], run: &Run) -> Outcome {
        let number = self.begin_with(files, run);
        self.wait(number)
    }

    pub fn wait(&mut self, number: u32) -> Outcome {
        while self.outcomes[&number].exit.is_none() {
            self.step();
        }
        self.outcomes.remove(&number).unwrap()
    }

    pub fn wait_started(&mut self, number: u32) {
        while !self.outcomes[&number].started {
            self.step();
        }
    }

    /// Waits until that run has printed this much.
    pub fn wait_output(&mut self, number: u32, text: &str) {
        while !self.outcomes[&number].out().contains(text) {
            self.step();
        }
    }

    /// Waits until a process of the container runs these words, such as `["sleep", "60"]`.
    pub fn wait_process(&self, words: &[&str]) {
        let words = words.join("\0");
        let begun = std::time::Instant::now();
        while below(self.child.id(), &words).is_empty() {
            assert!(begun.elapsed() < ANSWER_TIMEOUT, "no process runs {words:?}");
            std::thread::yield_now();
        }
    }

    pub fn wait_call(&mut self) -> (u32, ToolCall) {
        while self.calls.is_empty() {
            self.step();
        }
        self.calls.remove(0)
    }

    pub fn wait_closed(&mut self) -> String {
        while self.closed.is_empty() {
            self.step();
        }
        self.closed.remove(0)
    }

    /// Waits until the runner's loop answers.
    pub fn ping(&mut self) {
        let before = self.pongs;
        self.send(&Frame::raw(Kind::Ping, 0, Vec::new()));
        while self.pongs == before {
            self.step();
        }
    }

    /// Asks for a proof that the container is clean. Returns the request's number.
    pub fn ask_proof(&mut self) -> u32 {
        self.next += 1;
        self.send(&Frame::raw(Kind::Verify, self.next - 1, Vec::new()));
        self.next - 1
    }

    /// Whether a proof has come that answers that request.
    pub fn has_proof(&self, number: u32) -> bool {
        self.proofs.iter().any(|(n, _)| *n >= number)
    }

    /// Waits for that proof and returns its findings.
    pub fn wait_proof(&mut self, number: u32) -> Vec<String> {
        while !self.has_proof(number) {
            self.step();
        }
        self.proofs.drain(..).next_back().map(|(_, proof)| proof.findings).unwrap_or_default()
    }

    pub fn answer(&mut self, run: u32, call: u32, result: Result<serde_json::Value, ToolFailure>) {
        let result = result.map(|v| serde_json::value::to_raw_value(&v).unwrap());
        self.send(&Frame::json(Kind::ToolResult, run, &ToolResult { call, result }).unwrap());
    }

    pub fn run(&mut self, run: &Run) -> Outcome {
        let number = self.begin(run);
        self.wait(number)
    }

    pub fn python(&mut self, code: &str) -> Outcome {
        self.run(&program(code))
    }

    /// Closes the connection as a dying worker does. Returns how the runner ended.
    pub fn leave(&mut self) -> ExitStatus {
        self.peer.leave();
        self.child.wait().unwrap()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Pids of the processes below `pid` whose command line contains `text`.
pub fn below(pid: u32, text: &str) -> Vec<u32> {
    let children = |p: u32| -> Vec<u32> {
        let list = std::fs::read_to_string(format!("/proc/{p}/task/{p}/children")).unwrap_or_default();
        list.split_whitespace().filter_map(|c| c.parse().ok()).collect()
    };
    let (mut found, mut queue) = (Vec::new(), vec![pid]);
    while let Some(next) = queue.pop() {
        for child in children(next) {
            queue.push(child);
            let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&line).contains(text) {
                found.push(child);
            }
        }
    }
    found.sort_unstable();
    found
}

/// Makes a fresh directory for one socket. Ordinary users, as which some runners run, may enter it.
fn socket_dir() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("thermae-runner-test-{}-{n}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}
