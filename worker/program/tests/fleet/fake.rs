//! A backend with scripted containers: tests decide what a runner says, when it hangs and when it dies.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use thermae_runner::frames::{End, Exit, Frame, Kind, Proof, Ready, Run, Setup, ToolResult, Usage};
use thermae_worker::PoolOptions;
use thermae_worker::backend::{Backend, Container, Error, Identity, Leftover, Made};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::watch;

/// What a scripted runner does with a program. The program's text decides:
///
/// - `print X` prints X and ends.
/// - `hang` starts, and ends only if it is killed.
/// - `deaf` starts, and ignores even a kill.
/// - `value N` ends with a value of N times `{"":0}`, `show N` displays such a value, and `call N` calls a tool with
///   it.
/// - `shows N` displays N small things.
/// - `waits` calls a tool. When the call is answered, the time of the program is over.
/// - `words X` runs until it is killed, and then prints X.
/// - `frame X` sends X as a tool call.
/// - `die` starts and closes the connection.
/// - `nostart` reports that nothing ran.
/// - `litter` ends, and every later proof finds something.
///
/// The answer to any other tool call is printed, and then the program ends.
#[derive(Default)]
pub struct Script {
    /// Programs that runners have started, in order.
    pub started: Mutex<Vec<String>>,
    /// Number of containers that were made, and that were destroyed.
    pub made: AtomicU32,
    pub destroyed: AtomicU32,
    /// Whether making containers fails.
    pub broken: watch::Sender<bool>,
    /// Number of containers that can be made. Further ones wait until it is raised. 0 means no bound.
    pub room: watch::Sender<u32>,
    /// Whether containers that wait to be made fail.
    pub full: watch::Sender<bool>,
    /// Number of runs that are answered like `nostart`, whatever the program.
    pub sick: AtomicU32,
    /// Whether runners report that they have no inner wall.
    pub unwalled: AtomicBool,
    /// Whether proofs that containers are clean are held back.
    pub proofs_held: watch::Sender<bool>,
    /// Memory that runners report, in bytes.
    pub weight: AtomicU64,
    /// Names of containers that were destroyed, in order.
    pub removed: Mutex<Vec<String>>,
    /// Programs that runners have started, each with its container's name, in order.
    pub places: Mutex<Vec<(String, String)>>,
}

impl Script {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn starts(&self, code: &str) -> usize {
        self.started.lock().unwrap().iter().filter(|c| *c == code).count()
    }

    /// Waits until a program has started this many times.
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
        let number = self.0.made.fetch_add(1, Ordering::SeqCst) + 1;
        let _ = self.0.room.subscribe().wait_for(|room| *room == 0 || number <= *room).await;
        if *self.0.full.borrow() {
            return Err(Error::Unfit("there is no room".into()));
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (script, name) = (Arc::clone(&self.0), identity.name());
        let runner = tokio::spawn(async move {
            let _ = serve(theirs, &script, &name).await;
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
        self.script.removed.lock().unwrap().push(self.name.clone());
        self.script.destroyed.fetch_add(1, Ordering::SeqCst);
    }
}

async fn serve(mut socket: UnixStream, script: &Script, name: &str) -> std::io::Result<()> {
    let mut buf = Vec::new();
    let (mut deaf, mut littered, mut unproven, mut last_words) = (false, false, None, None);
    let mut waits = false;
    let mut held = script.proofs_held.subscribe();
    loop {
        if let Some(number) = unproven.take_if(|_| !*held.borrow_and_update()) {
            let findings = if littered { vec!["litter".to_owned()] } else { Vec::new() };
            send(
                &mut socket,
                Frame::json(
                    Kind::Verified,
                    number,
                    &Proof { findings, took_us: 1, memory_bytes: script.weight.load(Ordering::SeqCst) },
                )
                .unwrap(),
            )
            .await?;
        }
        while let Some((frame, used)) = Frame::decode(&buf)? {
            buf.drain(..used);
            if deaf && frame.kind != Kind::Run {
                continue;
            }
            match frame.kind {
                Kind::Setup => {
                    let setup: Setup = frame.parse().unwrap();
                    let nested = !script.unwalled.load(Ordering::SeqCst);
                    let warnings = if nested { vec![] } else { vec!["no inner wall: scripted".to_owned()] };
                    let memory_bytes = script.weight.load(Ordering::SeqCst);
                    let languages = setup.languages.iter().map(|l| (l.name.clone(), String::new())).collect();
                    let ready = Ready { languages, preloaded: vec![], warnings, nested, pid: 1, memory_bytes };
                    send(&mut socket, Frame::json(Kind::Ready, 0, &ready).unwrap()).await?;
                }
                Kind::Ping => send(&mut socket, Frame::raw(Kind::Pong, 0, Vec::new())).await?,
                Kind::Verify => unproven = Some(frame.run),
                Kind::ToolResult if waits => {
                    exit(&mut socket, frame.run, End::TimedOut { limit: "wall".into(), soft: false }).await?;
                }
                Kind::ToolResult => {
                    let result = frame.parse::<ToolResult>().unwrap().result;
                    let text = result.map_or_else(|error| error.message, |value| value.get().to_owned());
                    send(&mut socket, Frame::raw(Kind::Stdout, frame.run, text)).await?;
                    exit(&mut socket, frame.run, End::Exited { code: 0 }).await?;
                }
                Kind::Kill if last_words.is_some() => {
                    let words: String = last_words.take().unwrap_or_default();
                    send(&mut socket, Frame::raw(Kind::Stdout, frame.run, words)).await?;
                    exit(&mut socket, frame.run, End::Killed).await?;
                }
                Kind::Kill => exit(&mut socket, frame.run, End::Killed).await?,
                Kind::Run => {
                    let run: Run = frame.parse().unwrap();
                    let sick =
                        script.sick.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
                    if sick || run.code == "nostart" {
                        exit(&mut socket, frame.run, End::NotStarted { reason: "scripted".into() }).await?;
                        continue;
                    }
                    script.places.lock().unwrap().push((run.code.clone(), name.to_owned()));
                    script.started.lock().unwrap().push(run.code.clone());
                    send(&mut socket, Frame::raw(Kind::Started, frame.run, Vec::new())).await?;
                    match run.code.split_once(' ').map_or((&*run.code, ""), |(verb, rest)| (verb, rest)) {
                        ("hang", _) => {}
                        ("deaf", _) => deaf = true,
                        ("words", text) => last_words = Some(text.to_owned()),
                        ("litter", _) => {
                            littered = true;
                            exit(&mut socket, frame.run, End::Exited { code: 0 }).await?;
                        }
                        ("die", _) => return Ok(()),
                        ("tell", text) => ended(&mut socket, frame.run, Some(text.to_owned())).await?,
                        ("input", name) => {
                            send(&mut socket, Frame::raw(Kind::Stdout, frame.run, run.inputs[name].get())).await?;
                            exit(&mut socket, frame.run, End::Exited { code: 0 }).await?;
                        }
                        ("value", n) => ended(&mut socket, frame.run, Some(many(n))).await?,
                        ("show", n) => {
                            send(&mut socket, Frame::raw(Kind::Display, frame.run, many(n))).await?;
                            exit(&mut socket, frame.run, End::Exited { code: 0 }).await?;
                        }
                        ("shows", n) => {
                            for _ in 0..n.parse().unwrap() {
                                send(&mut socket, Frame::raw(Kind::Display, frame.run, r#"{"text/plain":"x"}"#))
                                    .await?;
                            }
                            exit(&mut socket, frame.run, End::Exited { code: 0 }).await?;
                        }
                        ("call", n) => {
                            let call = format!(r#"{{"call":1,"name":"look","arguments":{}}}"#, many(n));
                            send(&mut socket, Frame::raw(Kind::ToolCall, frame.run, call)).await?;
                        }
                        ("waits", _) => {
                            waits = true;
                            let call = r#"{"call":1,"name":"look","arguments":{}}"#;
                            send(&mut socket, Frame::raw(Kind::ToolCall, frame.run, call)).await?;
                        }
                        ("frame", text) => send(&mut socket, Frame::raw(Kind::ToolCall, frame.run, text)).await?,
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

/// A JSON object with this many of the values that take the most memory as a tree.
fn many(n: &str) -> String {
    format!(r#"{{"x":[{}0]}}"#, r#"{"":0},"#.repeat(n.parse().unwrap()))
}

async fn exit(socket: &mut UnixStream, run: u32, end: End) -> std::io::Result<()> {
    send(socket, Frame::json(Kind::Exit, run, &bare(end, None)).unwrap()).await
}

async fn ended(socket: &mut UnixStream, run: u32, value: Option<String>) -> std::io::Result<()> {
    let value = value.map(|text| serde_json::value::RawValue::from_string(text).unwrap());
    send(socket, Frame::json(Kind::Exit, run, &bare(End::Exited { code: 0 }, value)).unwrap()).await
}

fn bare(end: End, value: Option<Box<serde_json::value::RawValue>>) -> Exit {
    Exit {
        end,
        error: None,
        value,
        usage: Usage::default(),
        phases: Default::default(),
        warm: true,
        session_lives: false,
        left_out: Default::default(),
        notes: Vec::new(),
    }
}

async fn send(socket: &mut UnixStream, frame: Frame) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    socket.write_all(&bytes).await
}
