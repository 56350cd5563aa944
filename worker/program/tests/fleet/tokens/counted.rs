//! The counts of a token, which jobs share.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::json;
use thermae_schemas::{EventBody, Job, ToolReply};
use thermae_tokens::{Narrowing, attenuate};
use thermae_worker::{Options, TokenOptions};

use super::authority::{Authority, job, lines, narrowed, of, pays};
use crate::harness::{Fleet, session_job, within};
use crate::outages::Cut;

/// Runs a job whose allowed calls are all answered. Returns how many there were, and what it printed.
async fn run(fleet: &mut Fleet, job: &Job) -> (u32, Vec<String>) {
    fleet.submit(job).await;
    let mut calls = 0;
    loop {
        match fleet.event_of(job).await {
            EventBody::ToolCall(call) => {
                calls += 1;
                fleet.answer(&call, ToolReply::Ok(json!("paid").into())).await;
            }
            EventBody::Result(outcome) => return (calls, lines(&outcome)),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_share_the_counts_of_a_token_and_of_what_was_made_from_it() {
    let (authority, mut fleet) = (Authority::new(), Fleet::new().await);
    let worker = fleet.worker(authority.options()).await;
    // The first capability takes two calls, the second any number, and the token four in all.
    let token = authority.mint(|grant| {
        grant.set = of(r#"[{"pattern": "pay", "max_calls": 2}, {"pattern": "pay", "max_argument_bytes": 12}]"#);
        grant.calls = NonZeroU32::new(4);
    });
    let child: String =
        attenuate(&token, &Narrowing { calls: NonZeroU32::new(2), ..Narrowing::default() }).unwrap().into();
    let (calls, said) = run(&mut fleet, &job(&child, &pays(100))).await;
    assert_eq!((calls, said), (1, vec!["paid".to_owned()]));
    // Another job of the parent finds one call of the first capability left. The second one takes small calls only.
    let (calls, said) = run(&mut fleet, &job(&token, &[100, 100, 1].map(pays).concat())).await;
    assert_eq!((calls, said[0].as_str(), said[2].as_str()), (2, "paid", "paid"), "{said:?}");
    assert!(said[1].starts_with("capability_refused: ") && said[1].contains("all its calls are used: 2"), "{said:?}");
    // The child has one call left of its own two, and the token one of its four.
    let (calls, said) = run(&mut fleet, &job(&child, &pays(1).repeat(2))).await;
    assert_eq!((calls, said[0].as_str()), (1, "paid"), "{said:?}");
    assert!(said[1].starts_with("capability_refused: all calls of the token are used: "), "{said:?}");
    let (calls, said) = run(&mut fleet, &job(&token, &pays(1))).await;
    assert_eq!((calls, said), (0, vec!["capability_refused: all calls of the token are used: 4".to_owned()]));
    // Another token of the same grant has counts of its own.
    let other = authority.mint(|grant| grant.calls = NonZeroU32::new(1));
    assert_eq!(run(&mut fleet, &job(&other, &pays(1).repeat(2))).await.0, 1);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_at_once_on_two_workers_make_no_more_calls_than_the_token_allows() {
    const MOST: u32 = 7;
    let (authority, mut fleet) = (Authority::new(), Fleet::new().await);
    let options = |name: &str| Options { name: Some(name.to_owned()), ..authority.options() };
    let workers = [fleet.worker(options("one")).await, fleet.worker(options("two")).await];
    let token = authority.mint(|grant| {
        grant.set = of(&format!(r#"[{{"pattern": "begin"}}, {{"pattern": "pay", "max_calls": {MOST}}}]"#))
    });
    let code = "
import asyncio
async def one():
    try:
        return await pay(amount=1)
    except ToolError as error:
        return str(error).split(':')[0]
await begin()
print(*await asyncio.gather(*(one() for _ in range(5))), sep='\\n')
";
    // As many as both workers have slots for. Each waits until all of them run. Sessions bind them to their workers.
    let mut jobs = Vec::new();
    for (number, worker) in workers.iter().cycle().take(4).enumerate() {
        let session = session_job(&format!("s{number}"), "").session;
        let job = Job { session, ..job(&token, code) };
        fleet.submit_to(&worker.id, &job).await;
        jobs.push(job);
    }
    let (mut waiting, mut said) = (Vec::new(), HashMap::<String, u32>::new());
    let (mut calls, mut ended) = (0, 0);
    while ended < jobs.len() {
        match fleet.event().await.body {
            EventBody::ToolCall(call) if call.tool == "begin" => {
                waiting.push(call);
                if waiting.len() == jobs.len() {
                    for call in waiting.drain(..) {
                        fleet.answer(&call, ToolReply::Ok(json!(null).into())).await;
                    }
                }
            }
            EventBody::ToolCall(call) => {
                calls += 1;
                fleet.answer(&call, ToolReply::Ok(json!("paid").into())).await;
            }
            EventBody::Result(outcome) => {
                ended += 1;
                lines(&outcome).into_iter().for_each(|line| *said.entry(line).or_default() += 1);
            }
            _ => {}
        }
    }
    assert_eq!(calls, MOST);
    assert_eq!(said, HashMap::from([("paid".to_owned(), MOST), ("capability_refused".to_owned(), 20 - MOST)]));
    for worker in workers {
        assert_eq!(worker.count("thermae_worker_jobs_total", "succeeded"), 2.0, "both had a part");
        worker.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_registry_is_away_no_call_is_made_that_must_be_counted() {
    let (authority, mut fleet) = (Authority::new(), Fleet::new().await);
    let registry = Cut::new(&fleet.registry);
    let worker = fleet.start(authority.options(), registry.clone(), None).await;
    let token = authority.mint(|grant| grant.calls = NonZeroU32::new(10));
    let job = job(&token, &pays(1).repeat(2));
    fleet.submit(&job).await;
    let call = fleet.tool_call(&job).await;
    registry.cut.send_replace(true);
    fleet.answer(&call, ToolReply::Ok(json!("paid").into())).await;
    let refused = async {
        while worker.count("thermae_worker_tool_calls_total", "token_counts_unavailable") < 1.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("the refusal", refused).await;
    registry.cut.send_replace(false);
    let EventBody::Result(outcome) = fleet.event_of(&job).await else { panic!("another call was made") };
    let said = lines(&outcome);
    assert_eq!(said[0], "paid");
    assert!(said[1].starts_with("token_counts_unavailable: the call was not counted: "), "{said:?}");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_older_than_the_counts_makes_no_call_that_must_be_counted() {
    let authority = Authority::new();
    let counted = || authority.mint(|grant| grant.calls = NonZeroU32::new(10));
    let (old, free) = (counted(), authority.mint(|_| {}));
    let mut fleet = Fleet::new().await;
    let mut options = authority.options();
    // With a registry in one process, a token that was made after its start is newer, whatever the skew.
    options.tokens.skew = TokenOptions::default().skew;
    let worker = fleet.worker(options).await;
    assert_eq!(run(&mut fleet, &job(&counted(), &pays(1))).await, (1, vec!["paid".to_owned()]));
    // What was made from an old token, even now, shares its counts.
    for lost in [narrowed(&old, r#"[{"pattern": "pay"}]"#), old] {
        let (calls, said) = run(&mut fleet, &job(&lost, &pays(1))).await;
        assert!(calls == 0 && said[0].starts_with("token_counts_lost: "), "{said:?}");
    }
    // Without counts, a token needs no registry that remembers.
    assert_eq!(run(&mut fleet, &job(&free, &pays(1))).await, (1, vec!["paid".to_owned()]));
    worker.end().await;
}
