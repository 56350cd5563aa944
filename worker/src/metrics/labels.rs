//! The values of labels that are there from the start, so that a rate over them sees the first event.

use thermae_schemas::ErrorCode;

/// Results of tool calls, besides the codes of calls that are refused or never answered.
pub(super) const RESULTS: [&str; 2] = ["ok", "error"];
pub(super) const REFUSALS: [ErrorCode; 20] = [
    ErrorCode::UnknownTool,
    ErrorCode::CapabilityRefused,
    ErrorCode::ApprovalDenied,
    ErrorCode::ApprovalTimedOut,
    ErrorCode::TokenExpired,
    ErrorCode::TokenRevoked,
    ErrorCode::TokenUnknownKey,
    ErrorCode::TokenBadSignature,
    ErrorCode::TokenUnverifiable,
    ErrorCode::TokenCountsUnavailable,
    ErrorCode::TokenCountsLost,
    ErrorCode::ToolCallLimit,
    ErrorCode::ToolArguments,
    ErrorCode::ToolTimeout,
    ErrorCode::ToolAnswer,
    ErrorCode::ToolAnswerLimit,
    ErrorCode::AuditFailed,
    ErrorCode::ClientGone,
    ErrorCode::WorkerLost,
    ErrorCode::Internal,
];
/// Why tokens give no rights.
pub(super) const TOKENS: [ErrorCode; 11] = [
    ErrorCode::TokenUnsupported,
    ErrorCode::TokenUnverifiable,
    ErrorCode::TokenTooLarge,
    ErrorCode::TokenTooManyBlocks,
    ErrorCode::TokenMalformed,
    ErrorCode::TokenUnknownKey,
    ErrorCode::TokenBadSignature,
    ErrorCode::TokenRevoked,
    ErrorCode::TokenForeignTenant,
    ErrorCode::TokenNotYetValid,
    ErrorCode::TokenExpired,
];
/// What came of calls that needed approval.
pub(super) const APPROVALS: [&str; 4] = ["approved", "approved_before", "denied", "timed_out"];
/// Why sessions end.
pub(super) const ENDS: [&str; 4] = ["expired", "evicted", "lost", "closed"];
/// How requests to sessions end.
pub(super) const REQUEST_ENDS: [&str; 7] =
    ["exited", "signaled", "timed_out", "cancelled", "out_of_memory", "failed", "error"];
/// Results of the proofs that containers are clean.
pub(super) const VERDICTS: [&str; 3] = ["clean", "unclean", "none"];
/// Why leases are lost.
pub(super) const LOSSES: [&str; 2] = ["revoked", "passed"];
/// Why deliveries are requeued or handed to `resolve`.
pub(super) const RETURNS: [&str; 12] = [
    "draining",
    "no_container",
    "lease_lost",
    "again",
    "record_unreadable",
    "started_elsewhere",
    "copy",
    "maybe_started",
    "waited_long",
    "session_gone",
    "panicked",
    "paused",
];

/// What happens to files in artifacts directories.
pub(super) const FATES: [&str; 3] = ["stored", "left_out", "not_stored"];

/// What happens to large outcomes.
pub(super) const SHELVED: [&str; 3] = ["stored", "failed", "skipped"];

/// What sweeps of the store remove, and sweeps that fail.
pub(super) const SWEPT: [&str; 5] = ["artifact", "outcome", "session", "checkpoint", "failed"];
