//! The gateway's own error codes.

/// An error code of the gateway.
#[derive(Debug, Clone, Copy)]
pub struct Code {
    /// The code.
    pub code: &'static str,
    /// Status of the answer.
    pub status: u16,
    /// What it means.
    pub meaning: &'static str,
    /// What to do about it; may be empty.
    pub advice: &'static str,
}

const fn code(code: &'static str, status: u16, meaning: &'static str, advice: &'static str) -> Code {
    Code { code, status, meaning, advice }
}

/// The gateway's own error codes. Errors of the fleet keep the codes that outcomes have (`docs/errors.md`).
pub const CODES: &[Code] = &[
    code("bad_header", 400, "A header is malformed, or is there twice.", ""),
    code("bad_parameter", 400, "A part of the path or of the query is malformed.", ""),
    code("bad_body", 400, "The body can't be read, or is not what the operation takes.", ""),
    code(
        "unauthorized",
        401,
        "The request has neither a token nor an API key.",
        "send the header `Authorization: Bearer SECRET`",
    ),
    code(
        "bad_token",
        401,
        "The token is not this gateway's.",
        "use the token that `thermae serve` was given or printed",
    ),
    code("key_malformed", 401, "The text is no API key.", "send the whole key: thm_, its id and its secret"),
    code("key_unknown", 401, "There is no such API key.", "make one with `thermae-gateway key create`"),
    code("key_revoked", 401, "The API key is revoked.", "use another key"),
    code("key_expired", 401, "The API key has expired.", "use another key"),
    code(
        "missing_scope",
        403,
        "The API key may not do this. The field `scope` names the scope that it lacks, if one would help.",
        "use a key that has the scope",
    ),
    code(
        "rate_limited",
        429,
        "The API key has made as many requests as it may.",
        "wait as long as the header `Retry-After` says",
    ),
    code("keys_unavailable", 503, "The store of API keys gives no answer, so nothing is allowed.", "try again later"),
    code(
        "origin_refused",
        403,
        "Pages in a browser can't connect.",
        "connect with an SDK, without the header `Origin`",
    ),
    code(
        "no_issuer",
        404,
        "This gateway mints no capability tokens.",
        "name a private key in gateway.token_key, or mint tokens with `thermae-token`",
    ),
    code(
        "token_not_written",
        422,
        "The token would never be valid, would be valid for longer than the one before, takes nothing away, or is \
         sealed.",
        "",
    ),
    code("unknown_route", 404, "There is nothing at this path.", "see /v1/openapi.json for all paths"),
    code(
        "unknown_run",
        404,
        "This gateway follows no such run: it was submitted elsewhere, ended too long ago, or does not exist.",
        "take the run over with POST /v1/runs/{id}/take-over, or submit the job again under its id: it does not run \
         twice while the fleet keeps its outcome",
    ),
    code(
        "unknown_batch",
        404,
        "This gateway holds no such batch: it was submitted elsewhere, ended too long ago, or does not exist.",
        "submit the batch again, with the same ids of its jobs: they do not run twice while the fleet keeps their \
         outcomes",
    ),
    code("unknown_call", 404, "The run has made no such tool call, or it was answered long ago.", ""),
    code(
        "unknown_upload",
        404,
        "This gateway holds no such upload: it began elsewhere, was given up, or is too old.",
        "begin it again",
    ),
    code("unknown_artifact", 404, "The run has left no such artifact.", "see `artifacts` in the outcome"),
    code(
        "no_store",
        404,
        "Nothing serves this fleet's artifacts.",
        "set artifacts.url_base in the configuration of the workers, or submit the job with artifacts.inline",
    ),
    code("method_not_allowed", 405, "The path does not take this method.", "see the header `Allow`"),
    code("not_acceptable", 406, "The operation does not give what the header `Accept` asks for.", ""),
    code("slow_body", 408, "The body came too slowly.", ""),
    code("not_ended", 409, "The run has not ended yet.", "wait for its end: GET /v1/runs/{id}?wait=30s"),
    code("being_taken", 409, "Another request takes the run over at this moment.", "try again"),
    code("call_answered", 409, "The tool call already has another answer.", ""),
    code(
        "session_lives",
        409,
        "A session of this name lives, so that none begins.",
        "close it first, or use `reset=true` to give it up",
    ),
    code(
        "upload_offset",
        409,
        "The part does not begin where the upload ends.",
        "ask for the upload's offset, and go on from there",
    ),
    code("file_changed", 409, "The file became shorter while it was read.", "read it again"),
    code("file_exists", 409, "There is a file already.", ""),
    code("call_over", 410, "The code does not wait for the tool call any more.", ""),
    code(
        "upload_lost",
        410,
        "What had come of an upload is not there any more: its session ended, or a program changed it. Nothing is left \
         of it.",
        "begin it again",
    ),
    code("precondition_failed", 412, "The condition of a header is not met.", ""),
    code("unsupported_tus", 412, "The request does not name the version of tus that the gateway speaks.", ""),
    code("body_too_large", 413, "The body is larger than the gateway takes.", "send files by reference"),
    code(
        "unsupported_media_type",
        415,
        "The body has another media type than the operation takes.",
        "send JSON with the header `Content-Type: application/json`",
    ),
    code(
        "upgrade_required",
        426,
        "The operation is a WebSocket, and the request asks for none.",
        "connect with an SDK; a proxy in between must pass on the headers `Connection` and `Upgrade`",
    ),
    code("range_not_satisfiable", 416, "The range begins after the end of the file.", ""),
    code("headers_too_large", 431, "The target and the headers of the request are larger than the gateway takes.", ""),
    code("file_failed", 422, "The operation on the file failed. The field `errno` says why.", ""),
    code("digest_mismatch", 422, "The content of an upload is not what was said, so that nothing is left of it.", ""),
    code("file_not_found", 404, "There is no such file or directory.", ""),
    code("file_denied", 403, "The session's programs may not do this with the file.", ""),
    code("storage_full", 507, "The sandbox's storage is full.", ""),
    code(
        "too_many_requests",
        429,
        "As many requests are under way as the gateway takes, in all or of one tenant.",
        "try again later",
    ),
    code(
        "too_many_connections",
        429,
        "As many SDKs are connected as the gateway takes, in all or of one tenant; or as many connections have a request, \
         in all or of one address.",
        "try again later",
    ),
    code(
        "too_many_runs",
        429,
        "As many runs are under way as the gateway takes, in all or of one tenant, or as the API key may have.",
        "wait until some of them have ended",
    ),
    code(
        "too_many_uploads",
        429,
        "As many uploads of the tenant are under way as the gateway takes.",
        "complete some of them, or give them up",
    ),
    code("gateway_full", 503, "The gateway holds as many bytes as it may, in all or of one tenant.", "try again later"),
    code("too_many_tenants", 503, "The gateway works for as many tenants as it may.", "try again later"),
    code(
        "tenant_unavailable",
        503,
        "The gateway can't act for the tenant: it has no credentials, or they can't be used.",
        "ask whoever runs the gateway, whose log says more",
    ),
    code("broker_unreachable", 503, "The fleet's RabbitMQ does not answer.", "try again later"),
    code("queue_full", 429, "The tenant's queue is full.", "wait until some of the tenant's jobs have ended"),
    code("already_submitted", 409, "The fleet already follows a job with this id.", "give every job an id of its own"),
    code("draining", 503, "The gateway is stopping.", "use another gateway, or try again later"),
    code("no_scheduler", 503, "No scheduler takes jobs.", "start thermae-scheduler on this RabbitMQ"),
    code("broker_denied", 502, "RabbitMQ refused access to the gateway.", ""),
    code("embedded_unavailable", 503, "The embedded fleet can't run anything.", "run `thermae doctor`"),
    code("fleet_failed", 502, "The fleet could not be asked.", "submit the job again under the same id"),
    code("no_answer", 504, "The fleet did not answer in time.", "try again, with the same id if you submit a job"),
    code("closed", 503, "The gateway ended before the request did.", "try again later"),
    code("internal_error", 500, "The gateway itself failed. Its log says more.", ""),
];
