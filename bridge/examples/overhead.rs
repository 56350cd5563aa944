//! What the bridge costs: the same programs on one embedded fleet, directly and through the bridge over a pair of
//! sockets. `cargo run --release --package thermae-bridge --example overhead [RUNS]`.

use std::collections::HashMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::SinkExt;
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Map, Value};
use thermae_bridge::frames::{Codec, Frame};
use thermae_bridge::{Opened, Opener, Refusal};
use thermae_fleet::{EmbeddedOptions, Fleet, Job, runner_entry};
use thermae_schemas::Body;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::codec::{FramedRead, FramedWrite};
use tokio_util::sync::CancellationToken;

/// Runs at once where a rate is measured.
const AT_ONCE: usize = 8;

type Failed = Box<dyn Error>;

fn main() -> Result<ExitCode, Failed> {
    runner_entry().map_or_else(measure, Ok)
}

/// Gives every SDK the same fleet.
struct Given(Arc<Fleet>);

#[async_trait]
impl Opener for Given {
    async fn open(&self, _: Map<String, Value>) -> Result<Opened, Refusal> {
        let client = self.0.client_of(self.0.client().tenant().clone()).await?;
        Ok(Opened { client, fleet: self.0.clone(), facts: Map::new() })
    }
}

struct Sdk {
    read: FramedRead<OwnedReadHalf, Codec>,
    write: FramedWrite<OwnedWriteHalf, Codec>,
    next: u64,
}

impl Sdk {
    async fn send(&mut self, header: String, payload: Bytes) -> Result<(), Failed> {
        Ok(self.write.send(Frame { header: header.into(), payload }).await?)
    }

    async fn run(&mut self) -> Result<u64, Failed> {
        self.next += 1;
        let header = format!(r#"{{"type":"run","id":{},"window":262144}}"#, self.next);
        self.send(header, job().to_json()?.into()).await?;
        Ok(self.next)
    }

    /// Reads to the end of a run.
    async fn ended(&mut self) -> Result<u64, Failed> {
        loop {
            let frame = self.read.next().await.ok_or("the bridge has ended")??;
            let header: Value = serde_json::from_slice(&frame.header)?;
            match header["type"].as_str() {
                Some("done") => return header["id"].as_u64().ok_or_else(|| "no id".into()),
                Some("error") => return Err(header.to_string().into()),
                _ => {}
            }
        }
    }
}

fn job() -> Job {
    Job::python("print(1+1)")
}

#[tokio::main]
async fn measure() -> Result<ExitCode, Failed> {
    let runs = std::env::args().nth(1).map_or(Ok(500), |runs| runs.parse::<usize>())?;
    let fleet = Arc::new(Fleet::embedded(EmbeddedOptions::default()).await?);
    fleet.ready().await;
    let (ours, theirs) = UnixStream::pair()?;
    let (read, write) = theirs.into_split();
    let opener = Arc::new(Given(fleet.clone()));
    let serving = tokio::spawn(thermae_bridge::serve_stream(read, write, opener, CancellationToken::new()));
    let (read, write) = ours.into_split();
    let mut sdk = Sdk { read: FramedRead::new(read, Codec), write: FramedWrite::new(write, Codec), next: 0 };
    sdk.send(r#"{"type":"hello","versions":[1]}"#.to_owned(), Bytes::new()).await?;
    sdk.send(r#"{"type":"open","id":0}"#.to_owned(), Bytes::new()).await?;

    // Both sides in turns, so that a change of the machine's load meets both.
    let (mut direct, mut bridged) = (Vec::new(), Vec::new());
    for n in 0..runs + 50 {
        let begun = Instant::now();
        fleet.run(job(), None).await?;
        let once = begun.elapsed();
        let begun = Instant::now();
        sdk.run().await?;
        sdk.ended().await?;
        if n >= 50 {
            direct.push(once);
            bridged.push(begun.elapsed());
        }
    }
    let (direct, bridged) = (p50(direct), p50(bridged));
    println!("p50 of {runs}: direct {direct:.2?}, bridge {bridged:.2?}: ratio {:.2}", ratio(bridged, direct));

    let (mut direct, mut bridged) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..4 {
        direct += directly(&fleet, runs / 2).await?;
        bridged += through(&mut sdk, runs / 2).await?;
    }
    let rate = |took: Duration| (runs / 2 * 4) as f64 / took.as_secs_f64();
    let (direct, bridged) = (rate(direct), rate(bridged));
    println!("{AT_ONCE} in flight: direct {direct:.0}/s, bridge {bridged:.0}/s: ratio {:.2}", bridged / direct);
    drop(sdk);
    serving.await?;
    if let Some(fleet) = Arc::into_inner(fleet) {
        fleet.close().await;
    }
    Ok(ExitCode::SUCCESS)
}

async fn directly(fleet: &Fleet, runs: usize) -> Result<Duration, Failed> {
    let begun = Instant::now();
    let mut flight: FuturesUnordered<_> = (0..AT_ONCE).map(|_| fleet.run(job(), None)).collect();
    for n in 0..runs {
        flight.next().await.ok_or("nothing is in flight")??;
        if n + AT_ONCE < runs {
            flight.push(fleet.run(job(), None));
        }
    }
    Ok(begun.elapsed())
}

async fn through(sdk: &mut Sdk, runs: usize) -> Result<Duration, Failed> {
    let begun = Instant::now();
    let mut flight = HashMap::new();
    for _ in 0..AT_ONCE {
        flight.insert(sdk.run().await?, ());
    }
    for n in 0..runs {
        let ended = sdk.ended().await?;
        flight.remove(&ended).ok_or("another run has ended")?;
        if n + AT_ONCE < runs {
            flight.insert(sdk.run().await?, ());
        }
    }
    Ok(begun.elapsed())
}

fn p50(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}
