//! From a message's bytes to a job that may be handed out, or to the error that its client gets.

mod schema;

use serde::Deserialize;
use thermae_backplane::bus::Message;
use thermae_schemas::{ErrorCode, ErrorInfo, InputFile, Job, JobId, lacks_code, names};

use crate::age;
use crate::context::now_ms;
use crate::fleet::FleetView;
use crate::lane::Lane;
use crate::options::Options;

/// A job that is refused before it was admitted.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Which; `None` where the message names none.
    pub(crate) job: Option<JobId>,
    pub(crate) error: ErrorInfo,
}

fn refuse<T>(job: Option<JobId>, code: ErrorCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { job, error: ErrorInfo::new(code, message) })
}

/// Everything that can be said about a message without asking anybody.
pub(crate) fn check(options: &Options, fleet: &FleetView, lane: &Lane, message: &Message) -> Result<Job, Refusal> {
    let body = &message.body;
    let limit = options.max_job_bytes.as_u64();
    if body.len() as u64 > limit {
        let why = format!("the job has {} bytes; the fleet accepts at most {limit}", body.len());
        return refuse(id_of(message, limit), ErrorCode::JobTooLarge, why);
    }
    let job = match read(body) {
        Ok(job) => job,
        Err(error) => return Err(Refusal { job: id_of(message, limit), error }),
    };
    let id = Some(job.id.clone());
    let now = now_ms();
    let max_age = options.message_max_age.duration();
    if let Some(at) = age::submitted(message, now)
        && u128::from(now - at) > max_age.as_millis()
    {
        let why = format!(
            "the message is older than {} s (message_max_age); the job was not started from it",
            max_age.as_secs()
        );
        return refuse(id, ErrorCode::SubmissionExpired, why);
    }
    if let Some(key) = &message.reply_to
        && !names::owns_reply_key(&lane.tenant, key)
    {
        let why = format!("the reply key does not belong to tenant {}; no answer is sent to it", lane.tenant);
        return refuse(id, ErrorCode::ForbiddenReplyKey, why);
    }
    if options.tenant(&lane.tenant).is_none() || is_reserved(lane.tenant.as_str()) {
        let why = format!("tenant {} is not configured in this fleet", lane.tenant);
        return refuse(id, ErrorCode::UnknownTenant, why);
    }
    if job.pool != lane.pool {
        let why = format!("/pool: the job says {:?}, its routing key {:?}", job.pool.as_str(), lane.pool.as_str());
        return refuse(id, ErrorCode::SchemaViolation, why);
    }
    if job.class != lane.class {
        let why = format!("/class: the job says {:?}, its routing key {:?}", job.class.as_str(), lane.class.as_str());
        return refuse(id, ErrorCode::SchemaViolation, why);
    }
    let Some(languages) = fleet.languages(options, &job.pool) else {
        let known = fleet.pool_names(options).join(", ");
        let why = format!("there is no pool {:?}; there are: {known}", job.pool.as_str());
        return refuse(id, ErrorCode::UnknownPool, why);
    };
    if !languages.contains(&job.language) {
        let runs = languages.iter().map(|l| l.as_str()).collect::<Vec<_>>().join(", ");
        let why = format!("pool {:?} does not run {}; it runs: {runs}", job.pool.as_str(), job.language.as_str());
        return refuse(id, ErrorCode::UnsupportedLanguage, why);
    }
    Ok(job)
}

/// Says to a client what its messages lack. All else about this one is right, but nothing proves who sent it.
pub(crate) fn unsigned(options: &Options, message: &Message) -> Refusal {
    let why = "the message has no AMQP property user_id: set it to the name of the RabbitMQ user that you connect as";
    let job = id_of(message, options.max_job_bytes.as_u64());
    Refusal { job, error: ErrorInfo::new(ErrorCode::UserIdMissing, why) }
}

/// Names that would make a tenant's routing keys look like the fleet's own.
pub(crate) fn is_reserved(tenant: &str) -> bool {
    ["pool", "worker", "control", names::LANES_KEY, names::WORKERS_KEY, names::EPOCHS_KEY].contains(&tenant)
}

/// Reads a job. The first look is serde's; only what fails it, or a rule of values, is held against the JSON Schema to say why.
fn read(body: &[u8]) -> Result<Job, ErrorInfo> {
    match Job::from_json(body) {
        Ok(job) if !thermae_schemas::reads(job.protocol) => Err(schema::unsupported(u64::from(job.protocol))),
        Ok(job) if values_hold(&job) && !lacks_code(&job, body) => match (clash(&job), bad_path(&job)) {
            (Some(why), _) => Err(ErrorInfo::new(ErrorCode::SchemaViolation, why)),
            (None, Some(why)) => Err(ErrorInfo::new(ErrorCode::BadPath, why)),
            (None, None) => Ok(job),
        },
        Ok(_) => Err(schema::explain(body, None)),
        Err(error) => Err(schema::explain(body, Some(error))),
    }
}

/// The schema's ranges and lengths, which serde does not check. A test holds them against the schema.
fn values_hold(job: &Job) -> bool {
    let limits = &job.limits;
    let at_least_one = |n: Option<u64>| n != Some(0);
    (1..=100).contains(&job.max_attempts)
        && job.start_within_ms.is_none_or(|ms| (1..=86_400_000).contains(&ms))
        && job.idempotency_key.as_ref().is_none_or(|key| (1..=128).contains(&key.chars().count()))
        && job.tools.iter().all(|tool| (1..=128).contains(&tool.name.chars().count()))
        && job.files.iter().all(InputFile::has_one_content)
        && [limits.wall_ms, limits.cpu_ms, limits.memory_bytes, limits.output_bytes, limits.tool_ms]
            .into_iter()
            .all(at_least_one)
        && at_least_one(limits.pids.map(u64::from))
        && at_least_one(job.session.as_ref().and_then(|session| session.idle_ms))
}

/// Two tools that would have one name in the code.
fn clash(job: &Job) -> Option<String> {
    let clash = thermae_schemas::alias_clash(job.tools.iter().map(|tool| tool.name.as_str()))?;
    let thermae_schemas::AliasClash { at, first, second, alias } = clash;
    Some(format!("/tools/{at}/name: {second:?} and {first:?} are one name in the code, {alias}"))
}

/// A file whose path can't be used, or is another one's.
fn bad_path(job: &Job) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    job.files.iter().enumerate().find_map(|(at, file)| match file.check_path() {
        Err(why) => Some(format!("/files/{at}/path: {:?} {why}", short(&file.path))),
        Ok(()) if !seen.insert(&*file.path) => Some(format!("/files/{at}/path: {:?} stands twice", short(&file.path))),
        Ok(()) => None,
    })
}

/// The beginning of a text that may be long.
fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

/// The job's id where the rest of it is of no use: as its body says, else as the message's property says. A body above so many bytes is
/// not read: it would hold other tenants' jobs up.
pub(crate) fn id_of(message: &Message, most: u64) -> Option<JobId> {
    #[derive(Deserialize)]
    struct Named {
        id: JobId,
    }
    let readable = message.body.len() as u64 <= most;
    match readable.then(|| serde_json::from_slice::<Named>(&message.body)) {
        Some(Ok(named)) => Some(named.id),
        _ => message.message_id.clone().and_then(|id| JobId::new(id).ok()),
    }
}

#[cfg(test)]
mod tests;
