//! One container without a fleet, driven directly over its runner's frames.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use thermae_runner::frames::{End, Exit, Frame, Kind, Limits, Place, Run, Setup};
use thermae_testkit::peer::Peer;
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;

use crate::cases::Case;

/// Longer than any answer takes here.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Name of the container's only session.
const SESSION: &str = "floor";

/// A container whose runner is ready for programs.
pub(super) struct Container {
    peer: Peer,
    limits: Limits,
    outer: Box<dyn thermae_worker::backend::Container>,
    runs: u32,
}

/// The measurement of one run.
pub(super) struct Ran {
    /// Time from sending the frame to the arrival of the exit.
    pub(super) took: Duration,
    /// Whether the run used a spare: a sandbox that was made ahead.
    pub(super) warm: bool,
}

impl Container {
    /// Sets up the runner at the other end of `stream`.
    pub(super) async fn start(
        stream: UnixStream,
        outer: Box<dyn thermae_worker::backend::Container>,
        setup: Setup,
        limits: Limits,
    ) -> Result<Self> {
        let mut peer = Peer::new(stream.into_std()?, ANSWER_TIMEOUT)?;
        let ready = move || peer.set_up(&setup).map(|ready| (peer, ready));
        let (peer, ready) = spawn_blocking(ready).await.context("the set-up panicked")??;
        ready.warnings.iter().for_each(|warning| eprintln!("floor: {warning}"));
        Ok(Self { peer, limits, outer, runs: 0 })
    }

    /// Runs one program and checks its answer. Blocks the thread.
    pub(super) fn once(&mut self, case: Case) -> Result<Ran> {
        self.runs += 1;
        let run = Run {
            language: "python".into(),
            code: case.job(SESSION).code,
            argv: Vec::new(),
            stdin: None,
            env: BTreeMap::new(),
            inputs: BTreeMap::new(),
            place: match case {
                Case::Session => Place::Session { session: SESSION.into(), create: true },
                _ => Place::Fresh,
            },
            limits: self.limits,
            tools: Vec::new(),
            sync_tools: false,
            follow: false,
        };
        let begun = Instant::now();
        self.peer.send(&Frame::json(Kind::Run, self.runs, &run)?)?;
        let mut stdout = Vec::new();
        let exit = loop {
            let frame = self.peer.frame()?;
            match frame.kind {
                Kind::Stdout => stdout.extend(frame.body),
                Kind::Exit => break frame.parse::<Exit>()?,
                Kind::Fatal => bail!("the runner can't go on: {}", String::from_utf8_lossy(&frame.body)),
                _ => {}
            }
        };
        let took = begun.elapsed();
        if exit.end != (End::Exited { code: 0 }) || case.prints().map(str::as_bytes) != Some(&stdout) {
            bail!("{} on the floor: {exit:?}, stdout {:?}", case.as_str(), String::from_utf8_lossy(&stdout));
        }
        Ok(Ran { took, warm: exit.warm })
    }

    /// Ends the container, and waits until it has ended.
    pub(super) async fn end(mut self) {
        self.peer.leave();
        self.outer.destroy().await;
    }
}
