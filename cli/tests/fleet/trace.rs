//! Tracing: one trace shows a job's whole way through four processes, as a real OTLP receiver gets it.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use thermae_testkit::collector::{Collector, Span};

use crate::HarmTest;
use crate::fleet::Fleet;
use crate::servers::{OwnServers, Servers, binary};

pub(crate) const TESTS: &[(&str, HarmTest)] = &[("trace::one_trace_shows_a_jobs_whole_way", one_trace)];

/// The spans that must be there: process and name of each span, then process and name of its parent.
const WAY: &[(&str, &str, &str, &str)] = &[
    ("thermae-scheduler", "schedule", "thermae", "job"),
    ("thermae-scheduler", "admit", "thermae-scheduler", "schedule"),
    ("thermae-scheduler", "publish", "thermae-scheduler", "schedule"),
    ("thermae-worker", "job", "thermae-scheduler", "schedule"),
    ("thermae-worker", "acquire", "thermae-worker", "job"),
    ("thermae-worker", "start", "thermae-worker", "job"),
    ("thermae-worker", "run", "thermae-worker", "job"),
    ("thermae-worker", "tool_call", "thermae-worker", "run"),
    ("thermae", "tool", "thermae-worker", "tool_call"),
    ("thermae-worker", "finish", "thermae-worker", "job"),
    ("thermae-worker", "publish", "thermae-worker", "finish"),
];

fn one_trace(own: &OwnServers) -> Result<()> {
    let receiver = Collector::start()?;
    let servers = Servers { otlp: Some(receiver.endpoint().to_owned()), ..own.servers.clone() };
    let fleet = Fleet::start_on(servers, "traced", 1)?;
    let printed = run(&fleet, receiver.endpoint()).with_context(|| fleet.logs())?;
    // A process that has ended has sent its last spans.
    fleet.drain("worker")?;
    fleet.drain("scheduler")?;
    drop(fleet);
    check(&receiver.end(), &printed)
}

/// Runs a program that calls a tool once, and prints its trace context and the tool's answer.
fn run(fleet: &Fleet, endpoint: &str) -> Result<String> {
    let dir = tempfile::tempdir()?;
    let program = dir.path().join("program.py");
    std::fs::write(&program, "import os\nanswer = await echo(n=21)\nprint(os.environ['TRACEPARENT'], answer['n'])\n")?;
    let output = Command::new(binary("thermae")?)
        .arg("run")
        .arg(&program)
        .args(["--tool", "echo=cat", "--amqp", &fleet.servers.acme])
        .env("THERMAE_OTLP_ENDPOINT", endpoint)
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn check(received: &[Span], printed: &str) -> Result<()> {
    let roots: Vec<&Span> = received.iter().filter(|s| s.service == "thermae" && s.name == "job").collect();
    ensure!(roots.len() == 1 && roots[0].parent.is_empty(), "not one root:\n{}", tree(received));
    let trace = &roots[0].trace;
    let spans: Vec<Span> = received.iter().filter(|span| span.trace == *trace).cloned().collect();
    let the = |service: &str, name: &str, parent: &[u8]| {
        let mut found = spans.iter().filter(|s| s.service == service && s.name == name && s.parent == parent);
        let span = found.next().with_context(|| format!("no {service}/{name} there:\n{}", tree(&spans)))?;
        ensure!(found.next().is_none(), "more than one {service}/{name}:\n{}", tree(&spans));
        anyhow::Ok(span)
    };
    // Each row comes after the row of its parent.
    let mut found = vec![(("thermae", "job"), roots[0])];
    for (service, name, parent_service, parent_name) in WAY {
        let above = found.iter().find(|(key, _)| *key == (*parent_service, *parent_name));
        let (_, above) = above.with_context(|| format!("{name} hangs on {parent_name}, which comes later"))?;
        found.push(((service, name), the(service, name, &above.id)?));
    }
    for span in &spans {
        let hangs = span.parent.is_empty() || spans.iter().any(|above| above.id == span.parent);
        ensure!(hangs, "{}/{} hangs in the air:\n{}", span.service, span.name, tree(&spans));
    }
    let run = found.iter().find(|(key, _)| *key == ("thermae-worker", "run")).context("no run")?.1;
    let expected = format!("00-{}-{}-01 21\n", hex::encode(trace), hex::encode(&run.id));
    ensure!(printed == expected, "the code saw {printed:?}, not {expected:?}");
    Ok(())
}

/// All spans, one in each line, to help find what is missing.
fn tree(spans: &[Span]) -> String {
    let line = |s: &Span| {
        let [trace, id, parent] = [&s.trace, &s.id, &s.parent].map(hex::encode);
        format!("{trace} {}/{} {id} <- {parent}\n", s.service, s.name)
    };
    spans.iter().map(line).collect()
}
