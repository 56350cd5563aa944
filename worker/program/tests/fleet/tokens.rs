//! Jobs with tokens, with the real runner.

mod authority;
mod counted;

use std::time::{Duration, SystemTime};

use serde_json::json;
use thermae_backplane::bus::QueueSpec;
use thermae_schemas::{
    AuditWhat, Capabilities, ClientId, ErrorCode, Event, EventBody, Job, Status, Stream, TenantName, ToolCall,
    ToolReply, names,
};
use thermae_service::health::Health;
use thermae_tokens::{Issuer, LARGEST_TOKEN, MOST_BLOCKS, TokenId};
use thermae_worker::{Error, Service};

use crate::harness::{Fleet, options, within};
use authority::{Authority, KEY, job, lines, narrowed, of, pays};

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_gives_no_rights_is_refused_and_nothing_runs() {
    let (authority, other, mut fleet) = (Authority::new(), Authority::new(), Fleet::new().await);
    let worker = fleet.worker(authority.options()).await;
    let now = SystemTime::now();
    let good = authority.mint(|_| {});
    let mut deep = good.clone();
    for _ in 1..MOST_BLOCKS {
        deep = narrowed(&deep, "[]");
    }
    let one_more = biscuit_auth_append(&deep);
    let revoked = authority.mint(|_| {});
    authority.revoke(&revoked);
    let unknown = Issuer::new(KEY + 1, authority.key()).mint(&authority.grant()).unwrap();
    let cases = [
        (authority.mint(|grant| grant.expires = now - Duration::from_secs(1)), ErrorCode::TokenExpired),
        (authority.mint(|grant| grant.not_before = Some(now + Duration::from_secs(60))), ErrorCode::TokenNotYetValid),
        (authority.mint(|grant| grant.tenant = TenantName::new("globex").unwrap()), ErrorCode::TokenForeignTenant),
        (String::from(unknown), ErrorCode::TokenUnknownKey),
        (other.mint(|_| {}), ErrorCode::TokenBadSignature),
        (narrowed(&revoked, r#"[{"pattern": "pay"}]"#), ErrorCode::TokenRevoked),
        (one_more, ErrorCode::TokenTooManyBlocks),
        ("A".repeat(LARGEST_TOKEN + 4), ErrorCode::TokenTooLarge),
        (String::new(), ErrorCode::TokenMalformed),
        (good[..good.len() - 4].to_owned(), ErrorCode::TokenMalformed),
        (format!(" {good}"), ErrorCode::TokenMalformed),
    ];
    for (token, code) in &cases {
        let outcome = fleet.run(&job(token, "print(1)")).await;
        let error = outcome.error.unwrap();
        assert_eq!((outcome.status, error.code), (Status::Rejected, *code), "{error:?}");
        assert!(outcome.stdout.is_empty());
        assert!(token.is_empty() || !error.message.contains(token.as_str()), "{error:?}");
        assert!(worker.count("thermae_worker_tokens_total", code.as_str()) > 0.0, "{error:?}");
    }
    assert_eq!(fleet.run(&job(&good, "print(1)")).await.stdout, "1\n");
    assert_eq!(worker.count("thermae_worker_tokens_total", "ok"), 1.0);
    assert_eq!(worker.count("thermae_worker_tokens_total", ""), cases.len() as f64 + 1.0);
    worker.end().await;
}

/// The token with one more block than a token can have.
fn biscuit_auth_append(token: &str) -> String {
    let token = biscuit_auth::UnverifiedBiscuit::from_base64(token).unwrap();
    token.append(biscuit_auth::BlockBuilder::new().fact("thermae(1)").unwrap()).unwrap().to_base64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_keys_takes_no_job_with_a_token() {
    let (authority, mut fleet) = (Authority::new(), Fleet::new().await);
    let worker = fleet.worker(options()).await;
    let outcome = fleet.run(&job(&authority.mint(|_| {}), "print(1)")).await;
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code), (Status::Rejected, ErrorCode::TokenUnsupported), "{error:?}");
    assert_eq!(worker.count("thermae_worker_tokens_total", "token_unsupported"), 1.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_needs_the_leave_of_every_block_and_of_the_job() {
    let (authority, mut fleet) = (Authority::new(), Fleet::new().await);
    let worker = fleet.worker(authority.options()).await;
    let amount = |op: &str, value: u32| {
        format!(r#"[{{"pattern": "pay", "constraints": [{{"path": "amount", "op": "{op}", "value": {value}}}]}}]"#)
    };
    let token = authority.mint(|grant| grant.set = of(&amount("<", 100)));
    let token = narrowed(&token, &amount("!=", 20));
    let capabilities = Some(Capabilities::from_json(&amount(">", 10)).unwrap());
    let job = Job { capabilities, ..job(&token, &[5, 20, 50, 500].map(pays).concat()) };
    fleet.submit(&job).await;
    let call = fleet.tool_call(&job).await;
    assert_eq!(json!(call.arguments), json!({"amount": 50}));
    fleet.answer(&call, ToolReply::Ok(json!("paid").into())).await;
    let outcome = fleet.outcome(&job).await;
    let [own, later, paid, first] = lines(&outcome).try_into().unwrap();
    assert!(own.starts_with("capability_refused: ") && own.contains("amount > 10 does not hold"), "{own}");
    assert!(later.starts_with("capability_refused: ") && later.contains("amount != 20 does not hold"), "{later}");
    assert!(first.starts_with("capability_refused: ") && first.contains("amount < 100 does not hold"), "{first}");
    assert_eq!(paid, "paid");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_of_a_call_names_the_token_that_the_issuer_minted() {
    let (authority, mut fleet) = (Authority::new(), Fleet::new().await);
    let worker = fleet.worker(authority.options()).await;
    let id = Some("t-1".to_owned());
    let token = authority.mint(|grant| grant.id = TokenId::new("t-1").unwrap());
    let job = Job { stream: vec![Stream::Audit], ..job(&narrowed(&token, "[]"), &pays(1)) };
    fleet.submit(&job).await;
    let mut told = Vec::new();
    while let EventBody::Audit(line) = fleet.event_of(&job).await {
        told.push((line.what, line.result, line.token));
    }
    let refused = Some("capability_refused".to_owned());
    assert_eq!(told, [(AuditWhat::Call, None, id.clone()), (AuditWhat::End, refused, id)]);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_to_a_token_while_a_job_runs_counts_for_its_next_call() {
    let (authority, mut fleet) = (Authority::new(), Fleet::new().await);
    let worker = fleet.worker(authority.options()).await;
    let token = authority.mint(|_| {});
    type Change<'a> = &'a dyn Fn();
    let cases: [(Change<'_>, &str); 4] = [
        (&|| authority.break_list(), "token_unverifiable"),
        (&|| authority.remove_key(), "token_unknown_key"),
        (&|| authority.replace_key(), "token_bad_signature"),
        (&|| authority.revoke(&token), "token_revoked"),
    ];
    for (change, code) in cases {
        authority.mend();
        let job = job(&token, &pays(1).repeat(2));
        fleet.submit(&job).await;
        let call = fleet.tool_call(&job).await;
        change();
        second_call_is_refused(&mut fleet, &job, &call, code).await;
        assert_eq!(worker.count("thermae_worker_tool_calls_total", code), 1.0);
    }
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_expires_while_a_job_runs_allows_no_further_call() {
    let (authority, mut fleet) = (Authority::new(), Fleet::new().await);
    let worker = fleet.worker(authority.options()).await;
    let mut lifetime = Duration::from_secs(3);
    loop {
        let end = SystemTime::now() + lifetime;
        let job = job(&authority.mint(|grant| grant.expires = end), &pays(1).repeat(2));
        fleet.submit(&job).await;
        // On a busy machine, a token can expire before its job makes a call. Then one that lives longer is tried.
        let EventBody::ToolCall(call) = fleet.event_of(&job).await else {
            lifetime *= 3;
            continue;
        };
        // What the test waits for is this moment.
        tokio::time::sleep(end.duration_since(SystemTime::now()).unwrap_or_default()).await;
        second_call_is_refused(&mut fleet, &job, &call, "token_expired").await;
        break;
    }
    worker.end().await;
}

/// Answers the first call of a job, and looks what comes of the second one.
async fn second_call_is_refused(fleet: &mut Fleet, job: &Job, call: &ToolCall, code: &str) {
    fleet.answer(call, ToolReply::Ok(json!("paid").into())).await;
    let outcome = fleet.outcome(job).await;
    let said = lines(&outcome);
    assert_eq!(said[0], "paid", "{outcome:?}");
    assert!(said[1].starts_with(&format!("{code}: ")), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_a_token_go_to_the_client_that_it_names() {
    let (authority, mut fleet) = (Authority::new(), Fleet::new().await);
    let worker = fleet.worker(authority.options()).await;
    let answers = ClientId::random();
    fleet.bus.declare_queue(&QueueSpec::replies(&fleet.tenant, &answers)).await.unwrap();
    let mut calls = fleet.bus.consume(&names::reply_queue(&fleet.tenant, &answers), 10).await.unwrap();
    let job = job(&authority.mint(|grant| grant.answers = Some(answers)), &pays(1));
    fleet.submit(&job).await;
    let delivery = within("the call", calls.next()).await.unwrap();
    delivery.ack().await.unwrap();
    let event: Event = serde_json::from_slice(&delivery.message.body).unwrap();
    let EventBody::ToolCall(call) = event.body else { panic!("{event:?}") };
    fleet.answer(&call, ToolReply::Ok(json!("paid").into())).await;
    // The client that has the run hears only of its end.
    let EventBody::Result(outcome) = fleet.event_of(&job).await else { panic!("no outcome") };
    assert_eq!(outcome.stdout, "paid\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_keys_can_t_be_read_does_not_start() {
    let (authority, fleet) = (Authority::new(), Fleet::new().await);
    let options = authority.options();
    authority.break_list();
    let (metrics, health) = (prometheus::Registry::new(), Health::new());
    let made = Service::new(options, fleet.bus.clone(), fleet.registry.clone(), &metrics, health);
    assert!(matches!(made.err(), Some(Error::Tokens(_))));
}
