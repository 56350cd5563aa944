//! Checks that need no container: whether the pool runs a job at all, and with which limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use thermae_schemas::{ErrorCode, Outcome, PROTOCOL, SessionRequest};

use crate::artifacts::{InputFile, inputs};
use crate::context::Context;
use crate::options::{Bounds, Granted, PoolOptions, Refused};
use crate::tools::{Allowed, Gate, Held};
use crate::work::Work;

/// A job that may run here.
pub(crate) struct Prepared {
    /// The limits of the job.
    pub limits: Granted,
    /// The gate for the job's tool calls.
    pub gate: Arc<Gate>,
    /// The job's tools, as the runner needs them.
    pub tools: Vec<thermae_runner::frames::Tool>,
    /// The job's input files.
    pub files: Vec<InputFile>,
    /// The chunks of the checkpoint that the job's session begins with.
    pub checkpoint: Vec<Bytes>,
    /// The job's JSON values, by the names that the code finds them under.
    pub values: BTreeMap<String, Box<RawValue>>,
    /// Bounds on what the job may display, call and leave behind.
    pub bounds: Bounds,
    /// Bounds on the files that are collected from the job.
    pub artifacts: thermae_runner::frames::ArtifactLimits,
}

/// Checks a job against its pool, and fetches its input files and values.
///
/// # Errors
/// The outcome of a job that never runs.
#[allow(clippy::result_large_err, reason = "made once per job that is turned away")]
pub(crate) async fn prepare(ctx: &Context, work: &Work, pool: &PoolOptions) -> Result<Prepared, Outcome> {
    let job = &work.job;
    if !thermae_schemas::reads(job.protocol) {
        let message = format!("This worker speaks protocol {PROTOCOL}, not {}.", job.protocol);
        return Err(Outcome::rejected(ErrorCode::UnsupportedProtocol, message));
    }
    if !pool.languages.contains(&job.language) {
        let known: Vec<_> = pool.languages.iter().map(|l| l.as_str()).collect();
        let message = format!("The pool {} runs {}, not {}.", job.pool, known.join(", "), job.language.as_str());
        return Err(Outcome::rejected(ErrorCode::UnsupportedLanguage, message));
    }
    let limits = pool.limits.grant(&job.limits).map_err(|e| {
        let code = match e {
            Refused::Zero(_) => ErrorCode::SchemaViolation,
            Refused::TooHigh { .. } => ErrorCode::LimitTooHigh,
        };
        Outcome::rejected(code, format!("{e}."))
    })?;
    let most = pool.session_idle.as_millis();
    match job.session.as_ref().and_then(|s| s.idle_ms) {
        Some(0) => return Err(Outcome::rejected(ErrorCode::SchemaViolation, "session.idle_ms is 0.")),
        Some(n) if n > most => {
            let message = format!("session.idle_ms is {n}, and this pool allows at most {most}.");
            return Err(Outcome::rejected(ErrorCode::LimitTooHigh, message));
        }
        _ => {}
    }
    let wants = |s: &SessionRequest| s.checkpoint.is_some() || s.restore.is_some();
    if job.session.as_ref().is_some_and(wants) && !ctx.artifacts.is_lasting() {
        let message = "The session asks for checkpoints, and this fleet has no store that outlives its workers \
                       (artifacts.store). Nothing ran.";
        return Err(Outcome::rejected(ErrorCode::CheckpointUnsupported, message));
    }
    let most = ctx.options.artifacts.checkpoint_ttl_max.as_millis();
    match job.session.as_ref().and_then(|s| s.checkpoint_ttl_ms) {
        Some(0) => return Err(Outcome::rejected(ErrorCode::SchemaViolation, "session.checkpoint_ttl_ms is 0.")),
        Some(n) if n > most => {
            let message = format!("session.checkpoint_ttl_ms is {n}, and this fleet allows at most {most}.");
            return Err(Outcome::rejected(ErrorCode::LimitTooHigh, message));
        }
        _ => {}
    }
    let (gate, tools) = gate(ctx, work, pool.bounds).await?;
    if work.is_expired() {
        let why = "The job waited for longer than the fleet's message_max_age; it was not started.";
        return Err(Outcome::rejected(ErrorCode::SubmissionExpired, why.to_owned()));
    }
    if work.is_late() {
        return Err(late());
    }
    let files = inputs::files(&ctx.artifacts, &work.key.tenant, job, pool.disk.0).await?;
    let values = inputs::values(ctx, &work.key.tenant, job).await?;
    let (artifacts, bounds) = (pool.artifacts.for_runner(), pool.bounds);
    Ok(Prepared { limits, gate: Arc::new(gate), tools, files, checkpoint: Vec::new(), values, bounds, artifacts })
}

/// Makes the gate for the job's tool calls, and describes the tools for the runner.
#[allow(clippy::result_large_err, reason = "made once per job that is turned away")]
async fn gate(
    ctx: &Context,
    work: &Work,
    bounds: Bounds,
) -> Result<(Gate, Vec<thermae_runner::frames::Tool>), Outcome> {
    let specs = work.job.tools.clone();
    let capabilities = work.job.capabilities.clone();
    let token = match &work.job.token {
        None => None,
        Some(token) => {
            let held = Held::verify(ctx, &work.key.tenant, token).await;
            Some(held.map_err(|refused| Outcome::rejected(refused.code, format!("{}.", refused.message)))?)
        }
    };
    // Compiling schemas takes longer than reading them.
    let compiled = ctx.heavy.check(4 * work.tool_bytes, move || {
        let rejected = |code, why: String| Outcome::rejected(code, format!("{why}."));
        let made = Gate::new(&specs, bounds);
        let (gate, mut tools) = made.map_err(|error| rejected(ErrorCode::SchemaViolation, error.to_string()))?;
        let allowed = Allowed::new(capabilities, token);
        let allowed = allowed.map_err(|error| rejected(ErrorCode::BadCapability, error.to_string()))?;
        for tool in &mut tools {
            tool.hidden = allowed.as_ref().is_some_and(|allowed| !allowed.names(&tool.name));
        }
        Ok((gate.under(allowed.map(Arc::new)), tools))
    });
    compiled.await
}

/// The outcome of a job whose deadline passed before its code started.
pub(super) fn late() -> Outcome {
    Outcome::rejected(ErrorCode::DeadlineExceeded, "The job did not start before its deadline. Nothing of it ran.")
}
