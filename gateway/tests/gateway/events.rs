//! Streams of events.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use libtest_mimic::Trial;
use serde_json::json;
use thermae_gateway::Options;

use crate::serving::Serving;
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("events_are_followed_and_resumed", events_are_followed_and_resumed),
        test("a_gap_is_said", a_gap_is_said),
        test("a_thousand_followers_get_every_event", a_thousand_followers_get_every_event),
    ]
}

async fn events_are_followed_and_resumed() -> Result<()> {
    let serving = Serving::new().await?;
    let code = "print('one', flush=True)\nawait price()\nprint('two', flush=True)";
    let job = json!({ "id": "r", "code": code, "stream": ["lifecycle", "output"], "tools": [{ "name": "price" }] });
    serving.post("/v1/runs", &job).await?;
    let mut events = serving.follow("GET", "/v1/runs/r/events", "", b"").await?;
    let mut seen = Vec::new();
    let call = loop {
        let told = events.next().await?.context("the stream ended")?;
        ensure!(told.id == Some(seen.len() as u64 + 1) && told.data["event"] == told.event, "{told:?}");
        seen.push(told.clone());
        if told.event == "tool_call" {
            break told.data["call"].as_str().context("no id")?.to_owned();
        }
    };
    drop(events);
    ensure!(seen.iter().any(|told| told.event == "started"), "{seen:?}");
    serving.post(&format!("/v1/runs/r/calls/{call}"), &json!({ "ok": null })).await?;

    let last = format!("Last-Event-ID: {}\r\n", seen.len());
    let rest = serving.follow("GET", "/v1/runs/r/events", &last, b"").await?.rest().await?;
    ensure!(rest.first().and_then(|told| told.id) == Some(seen.len() as u64 + 1), "{rest:?}");
    let result = rest.last().context("no result")?;
    ensure!(result.event == "result" && result.data["stdout"] == "one\ntwo\n", "{result:?}");
    seen.extend(rest.clone());
    let all = serving.follow("GET", "/v1/runs/r/events", "", b"").await?.rest().await?;
    ensure!(all == seen, "a run that has ended can be followed from the beginning: {all:?}");

    let path = "/v1/runs/r/events";
    let after = |id: u64| format!("Last-Event-ID: {id}\r\n");
    let end = serving.ask("GET", path, &after(seen.len() as u64), b"").await?;
    ensure!(end.status == 204, "{end:?}");
    serving.ask("GET", path, &after(seen.len() as u64 + 1), b"").await?.problem(400, "bad_header")?;
    serving.ask("GET", path, "Last-Event-ID: x\r\n", b"").await?.problem(400, "bad_header")?;
    serving.get("/v1/runs/nobody/events").await?.problem(404, "unknown_run")?;
    serving.end().await
}

async fn a_gap_is_said() -> Result<()> {
    let serving = Serving::with(Options { events: 3, ..Options::default() }).await?;
    // Each thing displayed is an event, and the result is the last one.
    let job = json!({ "id": "r", "code": "for n in range(6): display(n)", "stream": ["display"] });
    let run = serving.run(job).await?;
    let last = run["last_event"].as_u64().context("no number")?;
    ensure!(last == 7, "{run}");
    let all = serving.follow("GET", "/v1/runs/r/events", "Last-Event-ID: 1\r\n", b"").await?.rest().await?;
    let gap = &all[0];
    ensure!(gap.event == "gap" && gap.id == Some(last - 3), "{gap:?}");
    ensure!(gap.data == json!({ "from": 2, "to": last - 3, "missed": last - 4 }), "{gap:?}");
    let ids: Vec<_> = all.iter().filter_map(|told| told.id).collect();
    ensure!(ids == (last - 3..=last).collect::<Vec<_>>() && all[3].event == "result", "{all:?}");
    serving.end().await
}

async fn a_thousand_followers_get_every_event() -> Result<()> {
    let serving = Serving::new().await?;
    let code = "await price()\nfor n in range(5):\n    print(n, flush=True)";
    let job = json!({ "id": "r", "code": code, "stream": ["lifecycle", "output"], "tools": [{ "name": "price" }] });
    let run = serving.post("/v1/runs?wait=60s&until=call", &job).await?.json()?;
    let call = run["calls"][0]["call"].as_str().context("no call")?.to_owned();
    let begun = Instant::now();
    let mut streams = Vec::new();
    for _ in 0..1000 {
        streams.push(serving.follow("GET", "/v1/runs/r/events", "", b"").await?);
    }
    serving.metric("thermae_gateway_followers 1000").await?;
    let (opened, answered) = (begun.elapsed(), Instant::now());
    serving.post(&format!("/v1/runs/r/calls/{call}"), &json!({ "ok": null })).await?;
    let all = try_join_all(streams.iter_mut().map(|stream| stream.rest())).await?;
    let told = &all[0];
    ensure!(told.last().is_some_and(|last| last.event == "result"), "{told:?}");
    ensure!(all.iter().all(|other| other == told), "they differ");
    eprintln!("1,000 followers: opened in {opened:?}, all {} events in {:?}", told.len(), answered.elapsed());
    serving.metric("thermae_gateway_followers 0").await?;
    serving.end().await
}
