"""Errors that the job is to blame for. Made by `scripts/generate_errors.py`."""

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


class BadCapability(ThermaeError):
    """The job's capabilities are malformed. The message says where."""

    code = "bad_capability"
    safe_to_retry = False
    advice = "Correct the capability at the place that the message names. docs/capabilities.md shows the form."
