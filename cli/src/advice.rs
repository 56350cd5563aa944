//! What to do about an error: for the terminal and for `docs/errors.md`.

use thermae_schemas::ErrorCode;

/// What whoever meets this error can do.
pub(crate) fn advice(code: ErrorCode) -> &'static str {
    use ErrorCode::*;
    match code {
        MalformedJson => "Send one JSON object per message (or per line of a batch).",
        UnknownField => "Check the field's spelling against schemas/json/job.json.",
        SchemaViolation => "Change the field that the message names; schemas/json/job.json says what it may hold.",
        UnsupportedProtocol => "Use a client of the fleet's release, or of the one before it.",
        JobTooLarge => "Send less in the message: shorten the code or its standard input.",
        BadPath => "Give each file a path of its own, relative to /workspace and without \"..\".",
        FilesTooLarge => {
            "Bring less, or raise the pool's disk; large inputs that many jobs share can be a dataset of the pool."
        }
        UnknownRef => {
            "Use the id of an artifact of the same tenant that the store still has, or a key of the tenant's own objects."
        }
        StoreUnavailable => "Submit again; look into the worker's log about its store.",
        FileNotPlaced => "Give the file another path, or (in a session) have the code take away what is in its way.",
        UnknownPool => "Check the pool's name, or add the pool to a worker's configuration.",
        UnsupportedLanguage => "Write it in Python, or choose a pool that runs the language.",
        LimitTooHigh => {
            "Ask for less, or raise the pool's ceiling: limits.ceiling in the worker's configuration. The embedded fleet's ceilings \
             rise with --memory, --wall, --cpu, --pids and --tool-wait, as far as the machine goes."
        }
        UserIdMissing => "Set the AMQP property user_id to the name of the RabbitMQ user that the client connects as.",
        ForbiddenReplyKey => "Use a reply key that begins with your own tenant's name.",
        UnknownTenant => "Have the tenant added to the scheduler's configuration.",
        QuotaExceeded => "Wait until some of the tenant's jobs have ended, then submit again.",
        IdempotencyConflict => "Use a new idempotency key for a job that differs.",
        IdConflict => "Give each job an id of its own; a random UUID is best.",
        SubmissionExpired => "Submit the job again, under a new id. Look for schedulers that were away for long.",
        OutcomeExpired => {
            "Read outcomes when they come, or raise outcome_ttl and outcome_bytes; submit under a new id to run it again."
        }
        RegistryFull => "Wait a little and submit again; give Redis more memory, or keep outcomes for a shorter time.",
        DeadlineExceeded => "Submit again with a later deadline, or add workers.",
        SessionLost => "Begin a new session (or submit with if_gone = new) and set its variables up again.",
        SessionExpired => {
            "Begin a new session (or submit with if_gone = new); use it more often, or raise session_idle."
        }
        SessionLimit => "Wait for one of the tenant's sessions to end or to idle, or raise max_sessions.",
        NoWorker => "Start a worker that serves the pool.",
        BackendUnavailable => "Check the container engine on the worker: `thermae doctor` there says what is wrong.",
        SandboxFailed => "Run `thermae doctor` on the worker; submit again.",
        CodeRaised => "Read the traceback and change the code.",
        CodeExited => "The exit status is the code's own; read what it printed.",
        CodeKilled => "Look for a crash in native code, or for a signal that the code sent to itself.",
        WallTimeout => "Make the code faster, or ask for a longer limit (limits.wall_ms, --wall).",
        CpuTimeout => "Make the code do less, or ask for a higher limit (limits.cpu_ms, --cpu).",
        OutOfMemory => "Hold less in memory, or ask for a higher limit (limits.memory_bytes, --memory).",
        OutputLimit => "Print less, or ask for a higher limit (limits.output_bytes, --output).",
        Cancelled => "Nothing: somebody asked for it.",
        WorkerLost => {
            "Check whether what the code does to the outside may be done twice, then submit it again under a new id."
        }
        SandboxLost => "As for worker_lost; if it happens again, look into the worker's log.",
        WorkerStopped => "As for worker_lost; a longer drain_grace lets running jobs end.",
        RecordLost => "As for worker_lost; check that Redis neither restarts nor evicts.",
        DeliveryLimit => "As for worker_lost; look for workers that crash or lose their connection.",
        UnknownTool => "List the tool in the job's tools.",
        ToolCallLimit => "Call the tool less often, or raise its max_calls.",
        ToolArguments => "Call the tool with arguments that fit its input schema.",
        ToolAnswer => {
            "Have the tool's answer written as JSON (without NaN or Infinity), with either ok or error, and at most 16 MiB."
        }
        ToolTimeout => "Make the tool faster, or ask for a longer wait (limits.tool_ms, --tool-wait).",
        ClientGone => "Keep the client connected while its jobs run.",
        Internal => "Look into the fleet's log under the job's id; please report it.",
        Unknown => "Update this program: the fleet is newer than it.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_advice_in_a_sentence() {
        for (code, text, _, _) in ErrorCode::ALL {
            assert!(advice(*code).ends_with('.'), "{text}");
        }
    }
}
