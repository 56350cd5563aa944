//! Measures the floor under every sandbox: what the kernel alone takes for fresh namespaces with storage and a `/proc`.
//!
//! ```text
//! thermae-runner --floor JSON [--outer JSON]
//! ```
//!
//! It forks in the place of the nursery, so that it copies the same namespaces as a sandbox does. The child mounts a
//! tmpfs and `/proc`, enters a user namespace and exits; the parent waits for its end. It starts no interpreter, masks
//! nothing and exchanges no messages, so no sandbox can be cheaper. The runner's own binary does this, because the
//! process that forks must be single-threaded.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result};
use crate::inner::{self, Shape};
use crate::sys::{self, Fork, Status};

/// What to measure: the JSON of `--floor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Size of the tmpfs, as in [`crate::frames::Setup::disk_bytes`].
    pub disk_bytes: u64,
    /// Forks before the clock starts.
    pub warm_up: u32,
    /// Forks that are timed, one after the other.
    pub samples: u32,
    /// How long the rate is measured afterwards, in milliseconds; 0 skips this.
    pub rate_ms: u64,
}

/// What was measured: one line of JSON on standard output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Nanoseconds that each timed fork took, in order.
    pub nanos: Vec<u64>,
    /// Forks per second, back to back; `None` if the rate was not measured.
    pub per_second: Option<f64>,
}

/// Measures, prints the result and returns the exit status. `foreign` is that of [`Shape`].
pub(crate) fn serve(plan: &Plan, foreign: bool) -> i32 {
    let shape = Shape { disk_bytes: plan.disk_bytes, foreign, socket_dir: None, covered: Vec::new() };
    let measured = inner::in_place_of_the_nursery(&shape, || measure(plan, &shape).and_then(|times| print(&times)));
    measured.unwrap_or_else(|e| {
        crate::log(&e.to_string());
        3
    })
}

fn measure(plan: &Plan, shape: &Shape) -> Result<Times> {
    for _ in 0..plan.warm_up {
        once(shape)?;
    }
    let nanos = (0..plan.samples).map(|_| Ok(once(shape)?.as_nanos() as u64)).collect::<Result<_>>()?;
    let per_second = (plan.rate_ms > 0).then(|| rate(shape, Duration::from_millis(plan.rate_ms))).transpose()?;
    Ok(Times { nanos, per_second })
}

fn rate(shape: &Shape, time: Duration) -> Result<f64> {
    let (begun, mut done) = (Instant::now(), 0_u32);
    while begun.elapsed() < time {
        once(shape)?;
        done += 1;
    }
    Ok(f64::from(done) / begun.elapsed().as_secs_f64())
}

fn once(shape: &Shape) -> Result<Duration> {
    let begun = Instant::now();
    match sys::fork(inner::FRESH).step("fork into fresh namespaces")? {
        Fork::Child => sys::exit(inner::bare(shape).map_or_else(
            |e| {
                crate::log(&e.to_string());
                1
            },
            |()| 0,
        )),
        Fork::Parent { pid, .. } => {
            let reaped = sys::wait(pid, true).step("wait for the fork")?;
            let took = begun.elapsed();
            match reaped.map(|r| r.status) {
                Some(Status::Exited(0)) => Ok(took),
                other => Err(Error::Protocol(format!("a bare fork ended with {other:?}"))),
            }
        }
    }
}

/// Prints one line and flushes it, because the process ends without destructors.
fn print(times: &Times) -> Result<()> {
    let mut line = serde_json::to_vec(times)?;
    line.push(b'\n');
    let mut out = std::io::stdout();
    out.write_all(&line).and_then(|()| out.flush()).step("print the times")
}
