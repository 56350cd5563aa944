//! A backend whose containers are scripted: what a runner says, when it hangs, when it dies.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use thermae_runner::frames::{End, Exit, Frame, Kind, Proof, Ready, Run, Setup, Usage};
use thermae_worker::PoolOptions;
use thermae_worker::backend::{Backend, Container, Error, Identity, Leftover, Made};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::watch;

/// What a scripted runner does with a program, by the program's text.
///
/// `print X` prints X and ends; `hang` starts and never ends but by a kill; `deaf` starts and does not even hear a kill;
/// `die` starts and closes the connection; `nostart` says that nothing ran; `litter` ends, and every later proof finds it.
#[derive(Default)]
pub struct Script {
    /// Programs that runners have started, in order.
    pub started: Mutex<Vec<String>>,
    /// Containers made so far, and destroyed.
    pub made: AtomicU32,
    pub destroyed: AtomicU32,
    /// Whether making containers fails.
    pub broken: watch::Sender<bool>,
    /// Runners that answer `nostart` for their first so many runs, whatever the program.
    pub sick: AtomicU32,
    /// Whether proofs that containers are clean are held back.
    pub proofs_held: watch::Sender<bool>,
}

impl Script {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn starts(&self, code: &str) -> usize {
        self.started.lock().unwrap().iter().filter(|c| *c == code).count()
    }

    /// Waits until a program has started so often.
    pub async fn until_started(&self, code: &str, times: usize) {
        let started = async {
            while self.starts(code) < times {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        crate::harness::within("a start", started).await;
    }
}

/// Makes scripted containers.
pub struct Fake(pub Arc<Script>);

struct FakeContainer {
    name: String,
    script: Arc<Script>,
    runner: tokio::task::JoinHandle<()>,
}

#[async_trait]
impl Backend for Fake {
    async fn create(&self, identity: &Identity, _: &PoolOptions) -> Result<Made, Error> {
        if *self.0.broken.borrow() {
            return Err(Error::Unfit("the engine is down".into()));
        }
        self.0.made.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let script = Arc::clone(&self.0);
        let runner = tokio::spawn(async move {
            let _ = serve(theirs, &script).await;
        });
        let container = FakeContainer { name: identity.name(), script: Arc::clone(&self.0), runner };
        Ok(Made { stream: ours, container: Box::new(container), python: "/usr/bin/python3".into() })
    }

    async fn sweep(&self, _: &mut (dyn for<'a> FnMut(Leftover<'a>) -> bool + Send)) -> Result<usize, Error> {
        Ok(0)
    }
}

#[async_trait]
impl Container for FakeContainer {
    fn name(&self) -> &str {
        &self.name
    }

    async fn destroy(&mut self) {
        self.runner.abort();
        self.script.destroyed.fetch_add(1, Ordering::SeqCst);
    }
}

async fn serve(mut socket: UnixStream, script: &Script) -> std::io::Result<()> {
    let mut buf = Vec::new();
    let (mut deaf, mut littered, mut unproven) = (false, false, None);
    let mut held = script.proofs_held.subscribe();
    loop {
        if let Some(number) = unproven.take_if(|_| !*held.borrow_and_update()) {
            let findings = if littered { vec!["litter".to_owned()] } else { Vec::new() };
            send(&mut socket, Frame::json(Kind::Verified, number, &Proof { findings, took_us: 1 }).unwrap()).await?;
        }
        while let Some((frame, used)) = Frame::decode(&buf)? {
            buf.drain(..used);
            if deaf && frame.kind != Kind::Run {
                continue;
            }
            match frame.kind {
                Kind::Setup => {
                    let setup: Setup = frame.parse().unwrap();
                    let ready =
                        Ready { python: setup.python, preloaded: vec![], warnings: vec![], nested: true, pid: 1 };
                    send(&mut socket, Frame::json(Kind::Ready, 0, &ready).unwrap()).await?;
                }
                Kind::Ping => send(&mut socket, Frame::raw(Kind::Pong, 0, Vec::new())).await?,
                Kind::Verify => unproven = Some(frame.run),
                Kind::Kill => exit(&mut socket, frame.run, End::Killed).await?,
                Kind::Run => {
                    let run: Run = frame.parse().unwrap();
                    let sick =
                        script.sick.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
                    if sick || run.code == "nostart" {
                        exit(&mut socket, frame.run, End::NotStarted { reason: "scripted".into() }).await?;
                        continue;
                    }
                    script.started.lock().unwrap().push(run.code.clone());
                    send(&mut socket, Frame::raw(Kind::Started, frame.run, Vec::new())).await?;
                    match run.code.split_once(' ').map_or((&*run.code, ""), |(verb, rest)| (verb, rest)) {
                        ("hang", _) => {}
                        ("deaf", _) => deaf = true,
                        ("litter", _) => {
                            littered = true;
                            exit(&mut socket, frame.run, End::Exited { code: 0 }).await?;
                        }
                        ("die", _) => return Ok(()),
                        ("print", text) => {
                            send(&mut socket, Frame::raw(Kind::Stdout, frame.run, text)).await?;
                            exit(&mut socket, frame.run, End::Exited { code: 0 }).await?;
                        }
                        _ => exit(&mut socket, frame.run, End::Exited { code: 0 }).await?,
                    }
                }
                _ => {}
            }
        }
        if unproven.is_some() && !*held.borrow() {
            continue;
        }
        tokio::select! {
            read = socket.read_buf(&mut buf) => if read? == 0 { return Ok(()) },
            changed = held.changed() => if changed.is_err() { return Ok(()) },
        }
    }
}

async fn exit(socket: &mut UnixStream, run: u32, end: End) -> std::io::Result<()> {
    let exit = Exit {
        end,
        error: None,
        value: None,
        usage: Usage::default(),
        phases: Default::default(),
        warm: true,
        session_lives: false,
        left_out: Default::default(),
    };
    send(socket, Frame::json(Kind::Exit, run, &exit).unwrap()).await
}

async fn send(socket: &mut UnixStream, frame: Frame) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    socket.write_all(&bytes).await
}
