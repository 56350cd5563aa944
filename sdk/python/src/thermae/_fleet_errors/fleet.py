"""Errors that the fleet is to blame for. Made by `scripts/generate_errors.py`."""

from thermae._error import ThermaeError


class StoreUnavailable(ThermaeError):
    """The fleet's store could not be read."""

    code = "store_unavailable"
    safe_to_retry = True
    advice = "Submit the job again. The worker's log says what is wrong with the store."


class UnknownTenant(ThermaeError):
    """The tenant is not configured, and unknown tenants are not admitted (`admit_unknown_tenants`)."""

    code = "unknown_tenant"
    safe_to_retry = False
    advice = "Ask the operator to add the tenant to the scheduler's configuration."


class QuotaExceeded(ThermaeError):
    """Too many jobs of the tenant wait for another job's outcome, or too many bytes of jobs wait for a session."""

    code = "quota_exceeded"
    safe_to_retry = True
    advice = "Wait until some of the tenant's jobs have ended, then submit the job again."


class TokenUnverifiable(ThermaeError):
    """The worker can't read its public keys or its list of revoked tokens, so no token gives rights."""

    code = "token_unverifiable"
    safe_to_retry = True
    advice = "Correct the files of tokens.keys and tokens.revoked. The worker's log says what is wrong."


class TokenCountsUnavailable(ThermaeError):
    """A call of the token could not be counted, and was not made: Redis was away, or there were too many counts."""

    code = "token_counts_unavailable"
    safe_to_retry = False
    advice = "Make the call again later. Check that Redis can be reached, and mint fewer tokens."


class TokenCountsLost(ThermaeError):
    """How often the token was used is not known: Redis began anew after it was made. The call was not made."""

    code = "token_counts_lost"
    safe_to_retry = False
    advice = "Ask the issuer for a new token."


class SubmissionExpired(ThermaeError):
    """The message is older than the fleet accepts. The job was not started from it."""

    code = "submission_expired"
    safe_to_retry = False
    advice = "Submit the job again, under a new id. Check whether the schedulers were down for a long time."


class OutcomeExpired(ThermaeError):
    """The job has ended, but its outcome is not kept any more: it is too old, or there was no room for it."""

    code = "outcome_expired"
    safe_to_retry = False
    advice = (
        "Read outcomes as they arrive, or raise outcome_ttl and outcome_bytes. To run the job again, submit it under a "
        "new id."
    )


class RegistryFull(ThermaeError):
    """Redis, which holds the jobs' records, is full."""

    code = "registry_full"
    safe_to_retry = True
    advice = "Wait a little, then submit the job again. Give Redis more memory, or keep outcomes for a shorter time."


class DeadlineExceeded(ThermaeError):
    """The deadline passed before the code started."""

    code = "deadline_exceeded"
    safe_to_retry = True
    advice = "Submit the job again with a later deadline, or add workers."


class SessionLost(ThermaeError):
    """The session was lost with its worker or sandbox. Its variables are gone."""

    code = "session_lost"
    safe_to_retry = True
    advice = "Start a new session (or submit with if_gone = new), and set up its variables again."


class SessionExpired(ThermaeError):
    """The session was idle for longer than its timeout and was closed."""

    code = "session_expired"
    safe_to_retry = True
    advice = "Start a new session (or submit with if_gone = new). To keep one, use it more often or raise session_idle."


class SessionEvicted(ThermaeError):
    """The session was ended to make room for another one of its tenant."""

    code = "session_evicted"
    safe_to_retry = True
    advice = (
        "Start a new session (or submit with if_gone = new); if the fleet has a store, it begins with the files. To "
        "keep more sessions, raise max_sessions."
    )


class SessionLimit(ThermaeError):
    """The pool or the tenant has as many sessions as allowed, and none of the tenant's can make room."""

    code = "session_limit"
    safe_to_retry = True
    advice = (
        "Close sessions that you no longer need, or wait until one was unused for session_min_idle. To keep more, raise"
        " max_sessions or max_sessions_per_tenant."
    )


class CheckpointMissing(ThermaeError):
    """There is no checkpoint of the session that `restore` names, or it has expired."""

    code = "checkpoint_missing"
    safe_to_retry = False
    advice = "Check the name. A checkpoint is kept until its TTL is over, or until its session is reset."


class CheckpointUnsupported(ThermaeError):
    """The fleet's store ends with its worker, so that a checkpoint would not outlive the session."""

    code = "checkpoint_unsupported"
    safe_to_retry = False
    advice = "Name a store that outlives the fleet's workers: artifacts.store."


class CheckpointTooLarge(ThermaeError):
    """The session has too many files or bytes for a checkpoint, or a checkpoint has too many for the pool."""

    code = "checkpoint_too_large"
    safe_to_retry = False
    advice = "Remove what the session does not need, or raise the pool's disk or bounds.checkpoint_files."


class CheckpointFailed(ThermaeError):
    """The checkpoint could not be stored."""

    code = "checkpoint_failed"
    safe_to_retry = False
    advice = "Run another job of the session: it tries again. If it stays so, look at the worker's log."


class RequestInterrupted(ThermaeError):
    """A part of a request's input or output was lost with a connection. What the request did until then stands."""

    code = "request_interrupted"
    safe_to_retry = False
    advice = "Find out what the request did until then, for example by a look at the session's files."


class NoWorker(ThermaeError):
    """No worker serves the pool."""

    code = "no_worker"
    safe_to_retry = True
    advice = "Start a worker that serves the pool."


class BackendUnavailable(ThermaeError):
    """The container engine (Docker) does not answer, or can't make the pool's containers."""

    code = "backend_unavailable"
    safe_to_retry = True
    advice = "Run `thermae doctor` on the worker: it says what is wrong with the container engine."


class SandboxFailed(ThermaeError):
    """The sandbox could not be made."""

    code = "sandbox_failed"
    safe_to_retry = True
    advice = "Run `thermae doctor` on the worker, then submit the job again."


class WorkerLost(ThermaeError):
    """The worker that ran the code died or could not be reached. The code may have run, in whole or in part."""

    code = "worker_lost"
    safe_to_retry = False
    advice = "If the code's effects outside the sandbox may happen twice, submit the job again under a new id."


class SandboxLost(ThermaeError):
    """The sandbox or its container died during the run. The code may have run in part."""

    code = "sandbox_lost"
    safe_to_retry = False
    advice = (
        "If the code's effects outside the sandbox may happen twice, submit the job again under a new id. If this "
        "happens often, look in the worker's log."
    )


class WorkerStopped(ThermaeError):
    """The worker stopped before the code ended."""

    code = "worker_stopped"
    safe_to_retry = False
    advice = (
        "If the code's effects outside the sandbox may happen twice, submit the job again under a new id. A longer "
        "drain_grace gives running jobs more time to end."
    )


class RecordLost(ThermaeError):
    """The fleet's records were lost while the job was under way. The code may have run."""

    code = "record_lost"
    safe_to_retry = False
    advice = (
        "If the code's effects outside the sandbox may happen twice, submit the job again under a new id. Check that "
        "Redis does not restart or evict keys."
    )


class DeliveryLimit(ThermaeError):
    """The job was handed out too many times without ending. The code may have run."""

    code = "delivery_limit"
    safe_to_retry = False
    advice = (
        "If the code's effects outside the sandbox may happen twice, submit the job again under a new id. Look for "
        "workers that crash or lose their connection."
    )


class AuditFailed(ThermaeError):
    """The tool call could not be written to the worker's audit log, so it was not made."""

    code = "audit_failed"
    safe_to_retry = False
    advice = (
        "Make room on the disk of the worker's audit.file, or give the worker the right to write there. The worker's "
        "log says more."
    )


class Internal(ThermaeError):
    """The fleet itself failed. Its log says more."""

    code = "internal"
    safe_to_retry = False
    advice = "Look for the job's id in the fleet's log, and please report the error."
