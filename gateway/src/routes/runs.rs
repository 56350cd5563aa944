//! Runs: submit, list, look, answer, decide, take over, cancel.

use std::sync::Arc;

use axum::http::{HeaderName, StatusCode};
use axum::response::Response;
use thermae_schemas::{JobId, RunQuery, Scope};

use super::{empty, located};
use crate::call::Call;
use crate::problem::Problem;
use crate::service::{Run, RunState};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(super) async fn submit(mut call: Call) -> Result<Response, Problem> {
    let (wait, or_call) = (call.wait()?, or_call(&call)?);
    let key = call.header(IDEMPOTENCY_KEY)?.map(str::to_owned);
    let (text, held) = call.json().await?;
    let service = &call.service;
    let run = service.submit(text, key.as_deref(), held, &call.caller, &call.holder).await?;
    if let Some(wait) = wait {
        service.wait(&run, wait, or_call).await;
    }
    Ok(located(told(&call, &run)?, "runs", run.id.as_str()))
}

/// Runs on a page, unless the caller says otherwise.
const PAGE: usize = 100;
/// Most runs on a page.
const LARGEST_PAGE: usize = 1000;

pub(super) fn list(call: &Call) -> Result<Response, Problem> {
    let bad = |detail: String| Problem::new("bad_parameter", detail);
    let state = match call.query::<String>("state")?.as_deref() {
        None => None,
        Some("underway") => Some(RunState::Underway),
        Some("ended") => Some(RunState::Ended),
        Some("unknown") => Some(RunState::Unknown),
        Some(other) => return Err(bad(format!("state: `underway`, `ended` or `unknown`, not {other:?}"))),
    };
    let most = call.query::<usize>("limit")?.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&most) {
        return Err(bad(format!("limit: 1 to {LARGEST_PAGE}")));
    }
    call.holder.json(StatusCode::OK, &call.service.list(state, call.query("cursor")?, most))
}

pub(super) async fn get(call: Call) -> Result<Response, Problem> {
    let (id, wait, or_call): (JobId, _, _) = (call.name("id")?, call.wait()?, or_call(&call)?);
    let service = &call.service;
    let run = service.run(&id)?;
    if let Some(wait) = wait {
        service.wait(&run, wait, or_call).await;
    }
    call.holder.json(StatusCode::OK, &run.view())
}

pub(super) async fn info(call: Call) -> Result<Response, Problem> {
    let from = |name: &str| Ok::<_, Problem>(call.query::<u64>(name)?.unwrap_or(0));
    let (stdout_from, stderr_from) = (from("stdout_from")?, from("stderr_from")?);
    let query = RunQuery { stdout_from, stderr_from, ..RunQuery::new(call.name("id")?) };
    let (_, told) = call.service.ask(query).await?;
    call.holder.json(StatusCode::OK, &told)
}

pub(super) async fn take_over(call: Call) -> Result<Response, Problem> {
    let run = call.service.take_over(&call.name("id")?, &call.caller).await?;
    told(&call, &run)
}

pub(super) async fn cancel(call: Call) -> Result<Response, Problem> {
    let (id, wait): (JobId, _) = (call.name("id")?, call.wait()?);
    let service = &call.service;
    let run = service.cancel(&id).await?;
    if let Some(wait) = wait {
        service.wait(&run, wait, false).await;
    }
    told(&call, &run)
}

pub(super) async fn answer(mut call: Call) -> Result<Response, Problem> {
    let id: JobId = call.name("id")?;
    // Nothing of the body is read, and held in memory, before.
    call.service.may_answer(&id, call.part("call")).await?;
    let (text, mut held) = call.json().await?;
    // The code's copy.
    call.holder.grow(&mut held, text.len())?;
    call.service.answer(&id, call.part("call"), text, held).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

pub(super) async fn decide(mut call: Call) -> Result<Response, Problem> {
    let id: JobId = call.name("id")?;
    let (text, _held) = call.value().await?;
    call.holder.json(StatusCode::OK, &call.service.decide(&id, call.part("call"), &text, &call.caller).await?)
}

/// The run as it is: 202 while it is under way. Callers who may not read runs are told its state alone.
fn told(call: &Call, run: &Arc<Run>) -> Result<Response, Problem> {
    let view = run.view();
    let view = if call.caller.scopes.has(Scope::Read) { view } else { view.state_alone() };
    let status = if view.state == RunState::Underway { StatusCode::ACCEPTED } else { StatusCode::OK };
    call.holder.json(status, &view)
}

/// Whether a wait also ends with a call that waits for an answer.
fn or_call(call: &Call) -> Result<bool, Problem> {
    match call.query::<String>("until")?.as_deref() {
        None | Some("end") => Ok(false),
        Some("call") => Ok(true),
        Some(other) => Err(Problem::new("bad_parameter", format!("until: `end` or `call`, not {other:?}"))),
    }
}
