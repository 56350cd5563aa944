//! Capability tokens on the real fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use thermae_client::Tools;
use thermae_schemas::{Capabilities, ErrorCode, Job, Outcome, Status, TenantName, TokenText};
use thermae_tokens::{Grant, Issuer, Narrowing, SecretKey, attenuate};
use tokio::sync::{Barrier, mpsc};

use crate::authority::{KEY, grant};
use crate::fleet::Fleet;
use crate::promise::FLEET;
use crate::servers::OwnServers;
use crate::{HarmTest, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("tokens::jobs_on_two_workers_make_no_more_calls_than_the_token_allows", counted),
    ("tokens::a_token_that_gives_no_rights_is_refused", refused),
    ("tokens::a_narrowed_token_refuses_what_its_parent_allows", narrowed),
];

pub(crate) const HARM: &[(&str, HarmTest)] = &[("tokens::no_call_is_made_that_redis_can_not_count", without_redis)];

/// Longer than a job takes.
const RESULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Jobs that use one token at once: twice as many as the fleet has slots. Runs that wait for the others leave theirs.
const JOBS: usize = 8;

/// Calls that the token allows. The jobs try more than three times as many.
const MOST: u32 = 13;

/// Waits until all jobs have begun. Then it tries to make five calls at once.
const FIVE: &str = "
import asyncio
async def one():
    try:
        return await pay(amount=1)
    except ToolError as error:
        return str(error).split(':')[0]
await begin()
print(*await asyncio.gather(*(one() for _ in range(5))), sep='\\n')
";

/// A job that uses a token.
fn job(token: &str, tools: &Tools, code: &str) -> Job {
    Job { tools: tools.specs(), token: Some(TokenText::new(token)), ..Job::python(code) }
}

fn run(fleet: &Fleet, job: Job, tools: Tools) -> Result<Outcome> {
    fleet.runtime.block_on(async {
        let handle = fleet.acme.client().submit(job, Some(Arc::new(tools))).await?;
        Ok(tokio::time::timeout(RESULT_TIMEOUT, handle.result()).await??)
    })
}

fn counted(fleet: &Fleet) -> Result<()> {
    let set = format!(r#"[{{"pattern": "begin"}}, {{"pattern": "pay", "max_calls": {MOST}}}]"#);
    let token = fleet.authority.mint(&set)?;
    let set = Some(Capabilities::from_json(r#"[{"pattern": "**"}]"#)?);
    let child: String = attenuate(&token, &Narrowing { set, ..Narrowing::default() })?.into();
    let (all, calls) = (Arc::new(Barrier::new(JOBS)), Arc::new(AtomicU32::new(0)));
    let count = calls.clone();
    let tools = Tools::new()
        .with("begin", move |_: Value| {
            let all = all.clone();
            async move {
                all.wait().await;
                Ok(())
            }
        })
        .with("pay", move |_: Value| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok("paid") }
        });
    let (client, tools) = (fleet.acme.client(), Arc::new(tools));
    let (mut said, mut workers) = (BTreeMap::<String, u32>::new(), BTreeSet::new());
    fleet.runtime.block_on(async {
        let mut handles = Vec::new();
        for text in [&token, &child].into_iter().cycle().take(JOBS) {
            handles.push(client.submit(job(text, &tools, FIVE), Some(tools.clone())).await?);
        }
        for handle in &handles {
            let outcome = tokio::time::timeout(RESULT_TIMEOUT, handle.result()).await??;
            ensure!(outcome.status == Status::Succeeded, "{outcome:?}");
            outcome.stdout.lines().for_each(|line| *said.entry(line.to_owned()).or_default() += 1);
            workers.extend(outcome.worker);
        }
        Ok(())
    })?;
    ensure!(calls.load(Ordering::Relaxed) == MOST, "{calls:?} calls were made");
    let refused = 5 * JOBS as u32 - MOST;
    let all = [("capability_refused".to_owned(), refused), ("paid".to_owned(), MOST)];
    ensure!(said == BTreeMap::from(all), "{said:?}");
    ensure!(workers.len() == 2, "both workers have a part: {workers:?}");
    Ok(())
}

fn refused(fleet: &Fleet) -> Result<()> {
    let all = || grant(r#"[{"pattern": "**"}]"#);
    let revoked = fleet.authority.mint_for(&all()?)?;
    let child: String = attenuate(&revoked, &Narrowing { expires: Some(soon()), ..Narrowing::default() })?.into();
    fleet.authority.revoke(&revoked)?;
    let narrowed = fleet.authority.mint_for(&all()?)?;
    let revoked_child: String =
        attenuate(&narrowed, &Narrowing { expires: Some(soon()), ..Narrowing::default() })?.into();
    fleet.authority.revoke(&revoked_child)?;
    let expired = Grant { expires: SystemTime::now() - Duration::from_secs(1), ..all()? };
    let foreign = Grant { tenant: TenantName::new("globex")?, ..all()? };
    let stranger = |id| anyhow::Ok(String::from(Issuer::new(id, SecretKey::generate()?).mint(&all()?)?));
    let cases = [
        (fleet.authority.mint_for(&expired)?, ErrorCode::TokenExpired),
        (fleet.authority.mint_for(&foreign)?, ErrorCode::TokenForeignTenant),
        (stranger(KEY + 1)?, ErrorCode::TokenUnknownKey),
        (stranger(KEY)?, ErrorCode::TokenBadSignature),
        (revoked, ErrorCode::TokenRevoked),
        (child, ErrorCode::TokenRevoked),
        (revoked_child, ErrorCode::TokenRevoked),
    ];
    for (token, code) in cases {
        let outcome = run(fleet, job(&token, &Tools::new(), "print(1)"), Tools::new())?;
        let found = outcome.error.as_ref().map(|error| error.code);
        ensure!((outcome.status, found) == (Status::Rejected, Some(code)), "not {code:?}: {outcome:?}");
        ensure!(outcome.stdout.is_empty(), "code ran: {outcome:?}");
    }
    // Its child is revoked, and it is not.
    let outcome = run(fleet, job(&narrowed, &Tools::new(), "print(1)"), Tools::new())?;
    ensure!(outcome.stdout == "1\n", "{outcome:?}");
    Ok(())
}

fn soon() -> SystemTime {
    SystemTime::now() + Duration::from_secs(600)
}

fn narrowed(fleet: &Fleet) -> Result<()> {
    let token = fleet.authority.mint(r#"[{"pattern": "pay"}, {"pattern": "look"}]"#)?;
    let less = r#"[{"pattern": "pay", "constraints": [{"path": "amount", "op": "<", "value": 100}]}]"#;
    let narrowing = Narrowing { set: Some(Capabilities::from_json(less)?), ..Narrowing::default() };
    let child: String = attenuate(&token, &narrowing)?.into();
    let code = "
for call in (pay(amount=99), pay(amount=100), look(amount=1)):
    try:
        print(await call)
    except ToolError as error:
        print(str(error).split(':')[0])
";
    for (token, said) in [(token, "99\n100\n1\n"), (child, "99\ncapability_refused\ncapability_refused\n")] {
        let amount = |asked: Value| async move { Ok(asked["amount"].clone()) };
        let tools = Tools::new().with("pay", amount).with("look", amount);
        let outcome = run(fleet, job(&token, &tools, code), tools)?;
        ensure!(outcome.stdout == said, "{outcome:?}");
    }
    Ok(())
}

/// Makes a call that is counted, and tells what came of it, whenever it is told to.
const TELLS: &str = "
said = None
while await tell(said=said):
    try:
        said = await pay()
    except ToolError as error:
        said = str(error).split(':')[0]
";

/// What the code says of its calls, and whether it goes on. `tell` is not counted, so it needs no Redis.
fn without_redis(own: &OwnServers) -> Result<()> {
    let fleet = Fleet::start_on(own.servers.clone(), FLEET, 1)?;
    let token = fleet.authority.mint(r#"[{"pattern": "tell"}, {"pattern": "pay", "max_calls": 100}]"#)?;
    let (calls, (says, mut said)) = (Arc::new(AtomicU32::new(0)), mpsc::unbounded_channel());
    let (go, goes) = mpsc::unbounded_channel::<bool>();
    let (count, goes) = (calls.clone(), Arc::new(tokio::sync::Mutex::new(goes)));
    let tools = Tools::new()
        .with("pay", move |_: Value| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok("paid") }
        })
        .with("tell", move |asked: Value| {
            let _ = says.send(asked["said"].clone());
            let goes = goes.clone();
            async move { Ok(goes.lock().await.recv().await.unwrap_or_default()) }
        });
    let result = fleet.runtime.block_on(async {
        let _handle = fleet.acme.client().submit(job(&token, &tools, TELLS), Some(Arc::new(tools))).await?;
        let mut next = async || {
            tokio::time::timeout(RESULT_TIMEOUT, said.recv()).await.context("the code says nothing")?.context("ended")
        };
        ensure!(next().await? == Value::Null);
        go.send(true)?;
        ensure!(next().await? == "paid");
        tokio::task::block_in_place(|| own.ctl("redis", "kill"))?;
        go.send(true)?;
        let away = next().await?;
        ensure!(away == "token_counts_unavailable", "{away}");
        tokio::task::block_in_place(|| own.ctl("redis", "start"))?;
        // This Redis keeps nothing on disk. How often the token was used is not known any more.
        loop {
            go.send(true)?;
            let back = next().await?;
            ensure!([json!("token_counts_unavailable"), json!("token_counts_lost")].contains(&back), "{back}");
            if back == "token_counts_lost" {
                break;
            }
        }
        go.send(false)?;
        ensure!(calls.load(Ordering::Relaxed) == 1, "{calls:?} calls were made");
        Ok(())
    });
    fleet.check(result).map_err(|failed| anyhow::anyhow!("{}", failed.message().unwrap_or("failed")))
}
