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
    advice = (
        "Send less in the message: shorten the code or its standard input. Write large files into a session, or name "
        "what is in the store already."
    )


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
    """A `ref` of a job names no artifact in the tenant's part of the fleet's store."""

    code = "unknown_ref"
    safe_to_retry = False
    advice = "Use the id of an artifact of this tenant that the store still has."


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


class TokenUnsupported(ThermaeError):
    """The worker has no public keys, so it takes no tokens."""

    code = "token_unsupported"
    safe_to_retry = False
    advice = "Give the workers public keys (tokens.keys, --token-keys), or submit the job without a token."


class TokenTooLarge(ThermaeError):
    """The job's token is too long."""

    code = "token_too_large"
    safe_to_retry = False
    advice = "Ask the issuer for a new token that allows less, or narrow it less often."


class TokenTooManyBlocks(ThermaeError):
    """The job's token was narrowed too often."""

    code = "token_too_many_blocks"
    safe_to_retry = False
    advice = "Ask the issuer for a new token that allows less, or narrow it less often."


class TokenMalformed(ThermaeError):
    """The job's token is no capability token, or says what a token can't say."""

    code = "token_malformed"
    safe_to_retry = False
    advice = "Pass the token exactly as thermae-token wrote it."


class TokenUnknownKey(ThermaeError):
    """The worker has no public key with the id that the job's token names."""

    code = "token_unknown_key"
    safe_to_retry = False
    advice = "Give the workers the issuer's public key (tokens.keys), or use a token of another issuer."


class TokenBadSignature(ThermaeError):
    """A signature of the job's token is wrong."""

    code = "token_bad_signature"
    safe_to_retry = False
    advice = "Use the token as it was written. Check that the workers' key of this id is the issuer's (tokens.keys)."


class TokenRevoked(ThermaeError):
    """The job's token, or one that it was narrowed from, is revoked."""

    code = "token_revoked"
    safe_to_retry = False
    advice = "Ask the issuer for a new token."


class TokenForeignTenant(ThermaeError):
    """The job's token belongs to another tenant."""

    code = "token_foreign_tenant"
    safe_to_retry = False
    advice = "Submit the job as the token's tenant, or ask the issuer for a token of your own."


class TokenNotYetValid(ThermaeError):
    """The job's token is not valid yet."""

    code = "token_not_yet_valid"
    safe_to_retry = True
    advice = "Wait until the token is valid. Check the clocks of the issuer and the workers."


class TokenExpired(ThermaeError):
    """The job's token has expired."""

    code = "token_expired"
    safe_to_retry = False
    advice = "Ask the issuer for a new token."
