//! Advice for each error code, for the terminal and for `docs/errors.md`.

use thermae_schemas::ErrorCode;

/// What a person who gets this error can do.
pub(crate) fn advice(code: ErrorCode) -> &'static str {
    use ErrorCode::*;
    match code {
        MalformedJson => "Send one JSON object per message (or per line of a batch).",
        UnknownField => "Check the field's spelling against schemas/json/job.json.",
        SchemaViolation => "Correct the field that the message names. schemas/json/job.json lists the allowed values.",
        UnsupportedProtocol => "Use a client of the fleet's release, or of the release before it.",
        JobTooLarge => {
            "Send less in the message: shorten the code or its standard input. Write large files into a session, or name \
             what is in the store already."
        }
        BadPath => "Give each file its own path, relative to /workspace and without \"..\".",
        FilesTooLarge => {
            "Send fewer or smaller files, or raise the pool's disk. If many jobs share large inputs, make them a \
             dataset of the pool."
        }
        UnknownRef => "Use the id of an artifact of this tenant that the store still has.",
        StoreUnavailable => "Submit the job again. The worker's log says what is wrong with the store.",
        FileNotPlaced => "Give the file another path. In a session, the code can also remove what is in the way.",
        UnknownPool => "Check the pool's name, or add the pool to a worker's configuration.",
        UnsupportedLanguage => "Choose a pool that runs the language, or a session of that language.",
        LimitTooHigh => {
            "Ask for less, or raise the pool's ceiling: limits.ceiling in the worker's configuration. The embedded \
             fleet's ceilings rise with --memory, --wall, --cpu, --pids and --tool-wait, as far as the machine allows."
        }
        UserIdMissing => "Set the AMQP property user_id to the name of the RabbitMQ user that the client connects as.",
        ForbiddenReplyKey => "Use a reply key that begins with your own tenant's name.",
        UnknownTenant => "Ask the operator to add the tenant to the scheduler's configuration.",
        QuotaExceeded => "Wait until some of the tenant's jobs have ended, then submit the job again.",
        IdempotencyConflict => "Use a new idempotency key for a different job.",
        IdConflict => "Give each job its own id. A random UUID is best.",
        BadCapability => {
            "Correct the capability at the place that the message names. docs/capabilities.md shows the form."
        }
        SubmissionExpired => {
            "Submit the job again, under a new id. Check whether the schedulers were down for a long time."
        }
        OutcomeExpired => {
            "Read outcomes as they arrive, or raise outcome_ttl and outcome_bytes. To run the job again, submit it \
             under a new id."
        }
        RegistryFull => {
            "Wait a little, then submit the job again. Give Redis more memory, or keep outcomes for a shorter time."
        }
        DeadlineExceeded => "Submit the job again with a later deadline, or add workers.",
        SessionLost => "Start a new session (or submit with if_gone = new), and set up its variables again.",
        SessionExpired => {
            "Start a new session (or submit with if_gone = new). To keep one, use it more often or raise session_idle."
        }
        SessionEvicted => {
            "Start a new session (or submit with if_gone = new); if the fleet has a store, it begins with the files. To \
             keep more sessions, raise max_sessions."
        }
        SessionLimit => {
            "Close sessions that you no longer need, or wait until one was unused for session_min_idle. To keep more, \
             raise max_sessions or max_sessions_per_tenant."
        }
        CheckpointMissing => {
            "Check the name. A checkpoint is kept until its TTL is over, or until its session is reset."
        }
        CheckpointUnsupported => "Name a store that outlives the fleet's workers: artifacts.store.",
        CheckpointTooLarge => {
            "Remove what the session does not need, or raise the pool's disk or bounds.checkpoint_files."
        }
        CheckpointFailed => "Run another job of the session: it tries again. If it stays so, look at the worker's log.",
        RequestInterrupted => "Find out what the request did until then, for example by a look at the session's files.",
        NoWorker => "Start a worker that serves the pool.",
        BackendUnavailable => "Run `thermae doctor` on the worker: it says what is wrong with the container engine.",
        SandboxFailed => "Run `thermae doctor` on the worker, then submit the job again.",
        CodeRaised => "Read the traceback and change the code.",
        CodeExited => "The exit status is the code's own. Read what the code printed.",
        CodeKilled => "Look for a crash in native code, or for a signal that the code sent to itself.",
        WallTimeout => "Make the code faster, or ask for a longer limit (limits.wall_ms, --wall).",
        CpuTimeout => "Make the code do less, or ask for a higher limit (limits.cpu_ms, --cpu).",
        OutOfMemory => "Make the code use less memory, or ask for a higher limit (limits.memory_bytes, --memory).",
        OutputLimit => "Print less, or ask for a higher limit (limits.output_bytes, --output).",
        Cancelled => "Nothing to do: the client asked for it.",
        WorkerLost => {
            "If the code's effects outside the sandbox may happen twice, submit the job again under a new id."
        }
        SandboxLost => {
            "If the code's effects outside the sandbox may happen twice, submit the job again under a new id. \
             If this happens often, look in the worker's log."
        }
        WorkerStopped => {
            "If the code's effects outside the sandbox may happen twice, submit the job again under a new id. \
             A longer drain_grace gives running jobs more time to end."
        }
        RecordLost => {
            "If the code's effects outside the sandbox may happen twice, submit the job again under a new id. \
             Check that Redis does not restart or evict keys."
        }
        DeliveryLimit => {
            "If the code's effects outside the sandbox may happen twice, submit the job again under a new id. \
             Look for workers that crash or lose their connection."
        }
        UnknownTool => "Add the tool to the job's tools.",
        TokenUnsupported => {
            "Give the workers public keys (tokens.keys, --token-keys), or submit the job without a token."
        }
        TokenUnverifiable => {
            "Correct the files of tokens.keys and tokens.revoked. The worker's log says what is wrong."
        }
        TokenTooLarge | TokenTooManyBlocks => {
            "Ask the issuer for a new token that allows less, or narrow it less often."
        }
        TokenMalformed => "Pass the token exactly as thermae-token wrote it.",
        TokenUnknownKey => "Give the workers the issuer's public key (tokens.keys), or use a token of another issuer.",
        TokenBadSignature => {
            "Use the token as it was written. Check that the workers' key of this id is the issuer's (tokens.keys)."
        }
        TokenRevoked | TokenExpired => "Ask the issuer for a new token.",
        TokenForeignTenant => "Submit the job as the token's tenant, or ask the issuer for a token of your own.",
        TokenNotYetValid => "Wait until the token is valid. Check the clocks of the issuer and the workers.",
        TokenCountsUnavailable => "Make the call again later. Check that Redis can be reached, and mint fewer tokens.",
        TokenCountsLost => "Ask the issuer for a new token.",
        CapabilityRefused => "Call the tool as the capabilities allow, or give the job more of them.",
        ApprovalDenied => "Do without the call, or ask whoever decides why it was denied.",
        ApprovalTimedOut => {
            "Have somebody approve such calls in time (thermae approvals), or give them more time: limits.tool_ms \
             (--tool-wait), timeout_ms of the tool, and approval.timeout_ms of the capability."
        }
        ApprovalDecided => "Nothing to do: the first decision counts.",
        ApprovalOver => "Look which calls of the run wait for approval (thermae approvals list).",
        ToolCallLimit => "Call the tool less often, or raise its max_calls.",
        ToolArguments => "Call the tool with arguments that match its input schema.",
        ToolAnswer => {
            "Write the tool's answer as JSON (without NaN or Infinity) with either ok or error, of at most 16 MiB."
        }
        ToolAnswerLimit => {
            "Have the program make fewer large calls at once, and read their answers sooner, or raise the bound of the \
             workers that the error names (answers.tenant_disk, answers.disk)."
        }
        ToolTimeout => "Make the tool faster, or ask for a longer wait (limits.tool_ms, --tool-wait).",
        ClientGone => "Keep the client connected while its jobs run.",
        AuditFailed => {
            "Make room on the disk of the worker's audit.file, or give the worker the right to write there. The \
             worker's log says more."
        }
        Superseded => "Take the run over again if this client needs it. Only one client at a time follows a run.",
        Internal => "Look for the job's id in the fleet's log, and please report the error.",
        Unknown => "Update this program: the fleet is newer.",
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
