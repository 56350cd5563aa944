//! Checks a message: makes a job that may be handed out from it, or the error for its client.

mod schema;

use serde::Deserialize;
use thermae_backplane::bus::Message;
use thermae_schemas::{
    ErrorCode, ErrorInfo, InputFile, Job, JobId, Language, OLDEST, env_trouble, hides, lacks_code, names, read_object,
};

use crate::age;
use crate::context::now_ms;
use crate::fleet::FleetView;
use crate::lane::Lane;
use crate::options::Options;
pub(crate) use schema::{cut, unsupported};

/// The refusal of a message that was not admitted.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The job's id. `None` if the message has none.
    pub(crate) job: Option<JobId>,
    pub(crate) error: ErrorInfo,
}

fn refuse<T>(job: Option<JobId>, code: ErrorCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { job, error: ErrorInfo::new(code, message) })
}

/// Checks everything that can be checked without asking a server.
pub(crate) fn check(options: &Options, fleet: &FleetView, lane: &Lane, message: &Message) -> Result<Job, Refusal> {
    let body = &message.body;
    let limit = options.max_job_bytes.as_u64();
    if body.len() as u64 > limit {
        let why = format!("the job has {} bytes; the fleet accepts at most {limit}", body.len());
        return refuse(id_of(message, limit), ErrorCode::JobTooLarge, why);
    }
    let job = match read(body, fleet.newest) {
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
        let why = format!("there is no pool {:?}; the pools are: {known}", job.pool.as_str());
        return refuse(id, ErrorCode::UnknownPool, why);
    };
    if !languages.contains(&job.language) {
        let runs = languages.iter().map(|l| l.as_str()).collect::<Vec<_>>().join(", ");
        let why = format!("pool {:?} does not run {}; it runs: {runs}", job.pool.as_str(), job.language.as_str());
        return refuse(id, ErrorCode::UnsupportedLanguage, why);
    }
    if let Some(why) = unfit(&job) {
        return refuse(id, ErrorCode::SchemaViolation, why.to_owned());
    }
    if let Some(why) = env_trouble(&job.env) {
        return refuse(id, ErrorCode::SchemaViolation, format!("/{why}"));
    }
    Ok(job)
}

/// What the job asks for that its language does not have.
fn unfit(job: &Job) -> Option<&'static str> {
    let bash = job.language == Language::bash();
    match () {
        () if !job.argv.is_empty() && !job.code.is_empty() => Some("/argv: a job has either code or argv"),
        () if !job.argv.is_empty() && !bash => Some("/argv: only bash runs commands; set language to bash"),
        () if !job.inputs.is_empty() && job.language != Language::python() => Some("/inputs: only Python has inputs"),
        () if !job.tools.is_empty() && !job.language.calls_tools() => Some("/tools: programs in bash can't call tools"),
        () => None,
    }
}

/// The refusal of a message that has no `user_id`. Everything else about it is right, but nothing proves who sent it.
pub(crate) fn unsigned(options: &Options, message: &Message) -> Refusal {
    let why = "the message has no AMQP property user_id: set it to the name of the RabbitMQ user that you connect as";
    let job = id_of(message, options.max_job_bytes.as_u64());
    Refusal { job, error: ErrorInfo::new(ErrorCode::UserIdMissing, why) }
}

/// Whether a tenant's name would make its routing keys look like the fleet's own.
pub(crate) fn is_reserved(tenant: &str) -> bool {
    const KEYS: [&str; 5] =
        [names::LANES_KEY, names::RESTS_KEY, names::WORKERS_KEY, names::EPOCHS_KEY, names::OUTCOMES_KEY];
    ["pool", "worker", "control"].contains(&tenant) || KEYS.contains(&tenant)
}

/// Reads a job. serde reads it first. Only if that fails, or a value is out of range, the JSON Schema is used to
/// explain why.
fn read(body: &[u8], newest: u32) -> Result<Job, ErrorInfo> {
    match Job::from_json(body) {
        Ok(job) if !(OLDEST..=newest).contains(&job.protocol) => Err(unsupported(u64::from(job.protocol), newest)),
        Ok(job) if values_hold(&job) && !lacks_code(&job, body) => {
            match (clash(&job).or_else(|| hiding(&job)).or_else(|| bad_input(&job)), bad_path(&job)) {
                (Some(why), _) => Err(ErrorInfo::new(ErrorCode::SchemaViolation, why)),
                (None, Some(why)) => Err(ErrorInfo::new(ErrorCode::BadPath, why)),
                (None, None) => Ok(job),
            }
        }
        Ok(_) => Err(schema::explain(body, newest, None)),
        Err(error) => Err(schema::explain(body, newest, Some(error))),
    }
}

/// Checks the ranges and lengths of the schema, which serde doesn't check. A test compares this with the schema.
fn values_hold(job: &Job) -> bool {
    let limits = &job.limits;
    let at_least_one = |n: Option<u64>| n != Some(0);
    (1..=100).contains(&job.max_attempts)
        && job.start_within_ms.is_none_or(|ms| (1..=86_400_000).contains(&ms))
        && job.idempotency_key.as_ref().is_none_or(|key| (1..=128).contains(&key.chars().count()))
        && job.tools.iter().all(|tool| (1..=128).contains(&tool.name.chars().count()) && at_least_one(tool.timeout_ms))
        && job.files.iter().all(InputFile::has_one_content)
        && [limits.wall_ms, limits.cpu_ms, limits.memory_bytes, limits.output_bytes, limits.tool_ms, limits.pause_ms]
            .into_iter()
            .all(at_least_one)
        && at_least_one(limits.pids.map(u64::from))
        && at_least_one(job.session.as_ref().and_then(|session| session.idle_ms))
}

/// Two tools that would have the same name in the code.
fn clash(job: &Job) -> Option<String> {
    let clash = thermae_schemas::alias_clash(job.tools.iter().map(|tool| tool.name.as_str()))?;
    let thermae_schemas::AliasClash { at, first, second, alias } = clash;
    Some(format!("/tools/{at}/name: {second:?} and {first:?} are both called {alias} in the code"))
}

/// A tool whose name Python has for something else.
fn hiding(job: &Job) -> Option<String> {
    let of_python = job.language == Language::python();
    let names = job.tools.iter().enumerate().filter(|_| of_python);
    let (at, own) = names.map(|(at, tool)| (at, &tool.name)).find_map(|(at, name)| Some((at, hides(name)?)))?;
    Some(format!("/tools/{at}/name: a tool called {own} would hide Python's own {own} from the code; rename it"))
}

/// An input whose name can't be used, or is the name of a tool.
fn bad_input(job: &Job) -> Option<String> {
    let tool = |name: &str| job.tools.iter().find(|tool| thermae_schemas::alias(&tool.name) == *name);
    job.inputs.keys().find_map(|name| match (thermae_schemas::name_trouble(name), tool(name)) {
        (Some(why), _) => Some(format!("/inputs: {:?} {why}", short(name))),
        (None, Some(tool)) => Some(format!("/inputs: {name:?} is also what the tool {:?} is called", tool.name)),
        (None, None) => None,
    })
}

/// A file whose path can't be used, or is used by another file of the job.
fn bad_path(job: &Job) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    job.files.iter().enumerate().find_map(|(at, file)| match file.check_path() {
        Err(why) => Some(format!("/files/{at}/path: {:?} {why}", short(&file.path))),
        Ok(()) if !seen.insert(&*file.path) => Some(format!("/files/{at}/path: {:?} is used twice", short(&file.path))),
        Ok(()) => None,
    })
}

/// The beginning of a text, which may be long.
fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

/// The id of a refused job: from its body, or else from the message's property. A body of more than `most` bytes is not
/// read, because reading it would delay other tenants' jobs.
pub(crate) fn id_of(message: &Message, most: u64) -> Option<JobId> {
    #[derive(Deserialize)]
    struct Named {
        id: JobId,
    }
    let readable = message.body.len() as u64 <= most;
    match readable.then(|| read_object::<Named>(&message.body)) {
        Some(Ok(named)) => Some(named.id),
        _ => message.message_id.clone().and_then(|id| JobId::new(id).ok()),
    }
}

#[cfg(test)]
mod tests;
