"""The errors of the fleet, one class for each code. Made by `scripts/generate_errors.py`."""

from thermae._error import ThermaeError


class MalformedJson(ThermaeError):
    """The message is not JSON."""

    code = "malformed_json"
    safe_to_retry = False
    advice = "Send one JSON object per message (or per line of a batch)."


class UnknownField(ThermaeError):
    """The job has a field that this version does not know."""

    code = "unknown_field"
    safe_to_retry = False
    advice = "Check the field's spelling against schemas/json/job.json."


class SchemaViolation(ThermaeError):
    """A field has a value that the schema does not allow."""

    code = "schema_violation"
    safe_to_retry = False
    advice = "Correct the field that the message names. schemas/json/job.json lists the allowed values."


class UnsupportedProtocol(ThermaeError):
    """The fleet does not support the message's protocol version."""

    code = "unsupported_protocol"
    safe_to_retry = False
    advice = "Use a client of the fleet's release, or of the release before it."


class JobTooLarge(ThermaeError):
    """The job is larger than the fleet accepts."""

    code = "job_too_large"
    safe_to_retry = False
    advice = "Send less in the message: shorten the code or its standard input."


class BadPath(ThermaeError):
    """A file's path is invalid (for example, absolute or outside `/workspace`), or two files have the same path."""

    code = "bad_path"
    safe_to_retry = False
    advice = 'Give each file its own path, relative to /workspace and without "..".'


class FilesTooLarge(ThermaeError):
    """Together, the job's files are larger than a sandbox's storage."""

    code = "files_too_large"
    safe_to_retry = False
    advice = (
        "Send fewer or smaller files, or raise the pool's disk. If many jobs share large inputs, make them a dataset of"
        " the pool."
    )


class UnknownRef(ThermaeError):
    """A file's `ref` names nothing in the tenant's part of the fleet's store."""

    code = "unknown_ref"
    safe_to_retry = False
    advice = (
        "Use the id of an artifact of this tenant that the store still has, or the key of an object of this tenant."
    )


class StoreUnavailable(ThermaeError):
    """The fleet's store could not be read."""

    code = "store_unavailable"
    safe_to_retry = True
    advice = "Submit the job again. The worker's log says what is wrong with the store."


class FileNotPlaced(ThermaeError):
    """A file could not be written to its path: something else is in the way, or the storage is full."""

    code = "file_not_placed"
    safe_to_retry = False
    advice = "Give the file another path. In a session, the code can also remove what is in the way."


class UnknownPool(ThermaeError):
    """No pool of that name is configured."""

    code = "unknown_pool"
    safe_to_retry = False
    advice = "Check the pool's name, or add the pool to a worker's configuration."


class UnsupportedLanguage(ThermaeError):
    """The pool does not run that language, or the session runs another."""

    code = "unsupported_language"
    safe_to_retry = False
    advice = "Choose a pool that runs the language, or a session of that language."


class LimitTooHigh(ThermaeError):
    """The job asks for a higher limit than the pool allows."""

    code = "limit_too_high"
    safe_to_retry = False
    advice = (
        "Ask for less, or raise the pool's ceiling: limits.ceiling in the worker's configuration. The embedded fleet's "
        "ceilings rise with --memory, --wall, --cpu, --pids and --tool-wait, as far as the machine allows."
    )


class UserIdMissing(ThermaeError):
    """The message names no sender: its AMQP property `user_id` is missing."""

    code = "user_id_missing"
    safe_to_retry = False
    advice = "Set the AMQP property user_id to the name of the RabbitMQ user that the client connects as."


class ForbiddenReplyKey(ThermaeError):
    """The reply key does not belong to the tenant that submitted the job."""

    code = "forbidden_reply_key"
    safe_to_retry = False
    advice = "Use a reply key that begins with your own tenant's name."


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


class IdempotencyConflict(ThermaeError):
    """The idempotency key was used before, for a different job."""

    code = "idempotency_conflict"
    safe_to_retry = False
    advice = "Use a new idempotency key for a different job."


class IdConflict(ThermaeError):
    """The id was used before, for a different job."""

    code = "id_conflict"
    safe_to_retry = False
    advice = "Give each job its own id. A random UUID is best."


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


class SessionLimit(ThermaeError):
    """On the worker, the pool or the tenant has as many sessions as allowed, and none of the tenant's is idle."""

    code = "session_limit"
    safe_to_retry = True
    advice = (
        "Wait until one of the tenant's sessions ends or is idle, or raise max_sessions or max_sessions_per_tenant."
    )


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


class CodeRaised(ThermaeError):
    """The code raised an exception."""

    code = "code_raised"
    safe_to_retry = False
    advice = "Read the traceback and change the code."


class CodeExited(ThermaeError):
    """The code exited with a status other than zero."""

    code = "code_exited"
    safe_to_retry = False
    advice = "The exit status is the code's own. Read what the code printed."


class CodeKilled(ThermaeError):
    """A signal ended the code."""

    code = "code_killed"
    safe_to_retry = False
    advice = "Look for a crash in native code, or for a signal that the code sent to itself."


class WallTimeout(ThermaeError):
    """The wall-clock limit was reached."""

    code = "wall_timeout"
    safe_to_retry = False
    advice = "Make the code faster, or ask for a longer limit (limits.wall_ms, --wall)."


class CpuTimeout(ThermaeError):
    """The CPU-time limit was reached."""

    code = "cpu_timeout"
    safe_to_retry = False
    advice = "Make the code do less, or ask for a higher limit (limits.cpu_ms, --cpu)."


class OutOfMemory(ThermaeError):
    """The memory limit was reached."""

    code = "out_of_memory"
    safe_to_retry = False
    advice = "Make the code use less memory, or ask for a higher limit (limits.memory_bytes, --memory)."


class OutputLimit(ThermaeError):
    """The code wrote more output than allowed."""

    code = "output_limit"
    safe_to_retry = False
    advice = "Print less, or ask for a higher limit (limits.output_bytes, --output)."


class Cancelled(ThermaeError):
    """The client cancelled the job."""

    code = "cancelled"
    safe_to_retry = False
    advice = "Nothing to do: the client asked for it."


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


class UnknownTool(ThermaeError):
    """The job declares no tool with this name."""

    code = "unknown_tool"
    safe_to_retry = False
    advice = "Add the tool to the job's tools."


class ToolCallLimit(ThermaeError):
    """The tool was called more often than allowed."""

    code = "tool_call_limit"
    safe_to_retry = False
    advice = "Call the tool less often, or raise its max_calls."


class ToolArguments(ThermaeError):
    """The arguments of a tool call do not match the tool's input schema, or can't be sent."""

    code = "tool_arguments"
    safe_to_retry = False
    advice = "Call the tool with arguments that match its input schema."


class ToolTimeout(ThermaeError):
    """The client did not answer the tool call in time."""

    code = "tool_timeout"
    safe_to_retry = False
    advice = "Make the tool faster, or ask for a longer wait (limits.tool_ms, --tool-wait)."


class ToolAnswer(ThermaeError):
    """The client's answer to the tool call can't be read, or is too large."""

    code = "tool_answer"
    safe_to_retry = False
    advice = "Write the tool's answer as JSON (without NaN or Infinity) with either ok or error, of at most 16 MiB."


class ClientGone(ThermaeError):
    """No queue is bound to the reply key any more."""

    code = "client_gone"
    safe_to_retry = False
    advice = "Keep the client connected while its jobs run."


class Internal(ThermaeError):
    """The fleet itself failed. Its log says more."""

    code = "internal"
    safe_to_retry = False
    advice = "Look for the job's id in the fleet's log, and please report the error."


FLEET_ERRORS: tuple[type[ThermaeError], ...] = (
    MalformedJson,
    UnknownField,
    SchemaViolation,
    UnsupportedProtocol,
    JobTooLarge,
    BadPath,
    FilesTooLarge,
    UnknownRef,
    StoreUnavailable,
    FileNotPlaced,
    UnknownPool,
    UnsupportedLanguage,
    LimitTooHigh,
    UserIdMissing,
    ForbiddenReplyKey,
    UnknownTenant,
    QuotaExceeded,
    IdempotencyConflict,
    IdConflict,
    SubmissionExpired,
    OutcomeExpired,
    RegistryFull,
    DeadlineExceeded,
    SessionLost,
    SessionExpired,
    SessionLimit,
    NoWorker,
    BackendUnavailable,
    SandboxFailed,
    CodeRaised,
    CodeExited,
    CodeKilled,
    WallTimeout,
    CpuTimeout,
    OutOfMemory,
    OutputLimit,
    Cancelled,
    WorkerLost,
    SandboxLost,
    WorkerStopped,
    RecordLost,
    DeliveryLimit,
    UnknownTool,
    ToolCallLimit,
    ToolArguments,
    ToolTimeout,
    ToolAnswer,
    ClientGone,
    Internal,
)

__all__ = [
    "FLEET_ERRORS",
    "BackendUnavailable",
    "BadPath",
    "Cancelled",
    "ClientGone",
    "CodeExited",
    "CodeKilled",
    "CodeRaised",
    "CpuTimeout",
    "DeadlineExceeded",
    "DeliveryLimit",
    "FileNotPlaced",
    "FilesTooLarge",
    "ForbiddenReplyKey",
    "IdConflict",
    "IdempotencyConflict",
    "Internal",
    "JobTooLarge",
    "LimitTooHigh",
    "MalformedJson",
    "NoWorker",
    "OutOfMemory",
    "OutcomeExpired",
    "OutputLimit",
    "QuotaExceeded",
    "RecordLost",
    "RegistryFull",
    "SandboxFailed",
    "SandboxLost",
    "SchemaViolation",
    "SessionExpired",
    "SessionLimit",
    "SessionLost",
    "StoreUnavailable",
    "SubmissionExpired",
    "ToolAnswer",
    "ToolArguments",
    "ToolCallLimit",
    "ToolTimeout",
    "UnknownField",
    "UnknownPool",
    "UnknownRef",
    "UnknownTenant",
    "UnknownTool",
    "UnsupportedLanguage",
    "UnsupportedProtocol",
    "UserIdMissing",
    "WallTimeout",
    "WorkerLost",
    "WorkerStopped",
]
