//! The table of all operations. The router and the OpenAPI document are both made from it.

use axum::routing::MethodFilter;
use thermae_schemas::{Request, Scope};

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Submit,
    Runs,
    Run,
    RunInfo,
    TakeOver,
    Cancel,
    Events,
    Answer,
    Decide,
    Artifact,
    SubmitBatch,
    Batch,
    BatchResults,
    CancelBatch,
    Sessions,
    CloseSession,
    Checkpoint,
    Restore,
    Exec,
    ListFiles,
    ReadFile,
    WriteFile,
    RemoveFile,
    CreateUpload,
    Upload,
    SendUpload,
    GiveUpUpload,
    Usage,
    MintToken,
    NarrowToken,
    ShowToken,
    Connect,
    Document,
    Alive,
    Ready,
    Metrics,
}

/// Facts about an operation.
pub(crate) struct Facts {
    /// Name in the document and in metrics.
    pub(crate) name: &'static str,
    /// Method, in lower case.
    pub(crate) method: &'static str,
    /// Path. A parameter `{*path}` takes the rest of the path.
    pub(crate) path: &'static str,
    /// What it does, in one line.
    pub(crate) summary: &'static str,
    /// Who may do it.
    pub(crate) access: Access,
}

/// Who may do an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody. The operation tells nothing about any tenant.
    Everybody,
    /// Callers with this scope, for their own tenant.
    Scope(Scope),
    /// Callers with all scopes that an SDK can use ([`SDK`]), for their own tenant.
    Sdk,
    /// Whoever runs the gateway: the operation tells about all tenants.
    Operator,
}

/// The scopes that an SDK can use. Its frames are not checked one by one.
pub(crate) const SDK: [Scope; 5] = [Scope::Run, Scope::Read, Scope::Answer, Scope::Sessions, Scope::Artifacts];

impl Op {
    pub(crate) const ALL: [Op; 36] = [
        Op::Submit,
        Op::Runs,
        Op::Run,
        Op::RunInfo,
        Op::TakeOver,
        Op::Cancel,
        Op::Events,
        Op::Answer,
        Op::Decide,
        Op::Artifact,
        Op::SubmitBatch,
        Op::Batch,
        Op::BatchResults,
        Op::CancelBatch,
        Op::Sessions,
        Op::CloseSession,
        Op::Checkpoint,
        Op::Restore,
        Op::Exec,
        Op::ListFiles,
        Op::ReadFile,
        Op::WriteFile,
        Op::RemoveFile,
        Op::CreateUpload,
        Op::Upload,
        Op::SendUpload,
        Op::GiveUpUpload,
        Op::Usage,
        Op::MintToken,
        Op::NarrowToken,
        Op::ShowToken,
        Op::Connect,
        Op::Document,
        Op::Alive,
        Op::Ready,
        Op::Metrics,
    ];

    pub(crate) fn facts(self) -> Facts {
        let on = |method, path, name, access, summary| Facts { name, method, path, summary, access };
        let scope = Access::Scope;
        let (run, read, sessions) = (scope(Scope::Run), scope(Scope::Read), scope(Scope::Sessions));
        let tokens = scope(Scope::Tokens);
        match self {
            Self::Submit => on("post", "/v1/runs", "submitRun", run, "Submit a job."),
            Self::Runs => on("get", "/v1/runs", "listRuns", read, "The runs that this gateway holds."),
            Self::Run => on("get", "/v1/runs/{id}", "getRun", read, "The state of a run, or its outcome."),
            Self::RunInfo => {
                on("get", "/v1/runs/{id}/info", "askForRun", read, "What the fleet knows of any run of the tenant.")
            }
            Self::TakeOver => {
                on("post", "/v1/runs/{id}/take-over", "takeRunOver", run, "Follow a run that was submitted elsewhere.")
            }
            Self::Cancel => on("delete", "/v1/runs/{id}", "cancelRun", run, "Cancel a run."),
            Self::Events => on("get", "/v1/runs/{id}/events", "followRun", read, "Follow the events of a run."),
            Self::Answer => {
                let answer = scope(Scope::Answer);
                on("post", "/v1/runs/{id}/calls/{call}", "answerCall", answer, "Answer a tool call.")
            }
            Self::Decide => {
                let (path, approve) = ("/v1/runs/{id}/calls/{call}/decision", scope(Scope::Approve));
                on("post", path, "decideCall", approve, "Approve or deny a call that waits for approval.")
            }
            Self::Artifact => {
                let (path, artifacts) = ("/v1/runs/{id}/artifacts/{*name}", scope(Scope::Artifacts));
                on("get", path, "getArtifact", artifacts, "The content of an artifact of a run.")
            }
            Self::SubmitBatch => on("post", "/v1/batches", "submitBatch", run, "Submit many jobs."),
            Self::Batch => on("get", "/v1/batches/{id}", "getBatch", read, "The state of a batch."),
            Self::BatchResults => {
                on("get", "/v1/batches/{id}/results", "getResults", read, "The outcomes of a batch, as its runs end.")
            }
            Self::CancelBatch => on("delete", "/v1/batches/{id}", "cancelBatch", run, "Cancel the runs of a batch."),
            Self::Sessions => on("get", "/v1/sessions", "listSessions", sessions, "The live sessions."),
            Self::CloseSession => on("delete", "/v1/sessions/{name}", "closeSession", sessions, "Close a session."),
            Self::Checkpoint => {
                let path = "/v1/sessions/{name}/checkpoint";
                on("post", path, "checkpointSession", sessions, "Store the files of a live session.")
            }
            Self::Restore => {
                let path = "/v1/sessions/{name}/restore";
                on("post", path, "restoreSession", sessions, "Begin a session with the files of a checkpoint.")
            }
            Self::Exec => on("post", "/v1/sessions/{name}/exec", "exec", sessions, "Run a command in a live session."),
            Self::ListFiles => {
                on("get", "/v1/sessions/{name}/files", "listFiles", sessions, "The files in a session's /workspace.")
            }
            Self::ReadFile => {
                let path = "/v1/sessions/{name}/files/{*path}";
                on("get", path, "readFile", sessions, "The content of a file of a session.")
            }
            Self::WriteFile => {
                on("put", "/v1/sessions/{name}/files/{*path}", "writeFile", sessions, "Write a file of a session.")
            }
            Self::RemoveFile => {
                on("delete", "/v1/sessions/{name}/files/{*path}", "removeFile", sessions, "Remove a file of a session.")
            }
            Self::CreateUpload => {
                let path = "/v1/sessions/{name}/uploads/{*path}";
                on("post", path, "createUpload", sessions, "Begin an upload of a file of a session, in parts (tus).")
            }
            Self::Upload => on("get", "/v1/uploads/{id}", "getUpload", sessions, "How much of an upload is there."),
            Self::SendUpload => {
                on("patch", "/v1/uploads/{id}", "sendUpload", sessions, "Send the next part of an upload (tus).")
            }
            Self::GiveUpUpload => {
                on("delete", "/v1/uploads/{id}", "giveUpUpload", sessions, "Give an upload up (tus).")
            }
            Self::Usage => {
                on("get", "/v1/usage", "getUsage", read, "What the tenant's runs used that ended through this gateway.")
            }
            Self::MintToken => on("post", "/v1/tokens", "mintToken", tokens, "Mint a capability token."),
            Self::NarrowToken => on("post", "/v1/tokens/narrow", "narrowToken", tokens, "Narrow a capability token."),
            Self::ShowToken => on("post", "/v1/tokens/show", "showToken", tokens, "What a capability token says."),
            Self::Connect => {
                on("get", "/v1/connect", "connect", Access::Sdk, "Speak the SDK's protocol over a WebSocket.")
            }
            Self::Document => on("get", "/v1/openapi.json", "getDocument", Access::Everybody, "This document."),
            Self::Alive => on("get", "/healthz", "alive", Access::Everybody, "Whether the process runs."),
            Self::Ready => on("get", "/readyz", "ready", Access::Everybody, "Whether the gateway takes jobs."),
            Self::Metrics => on("get", "/metrics", "metrics", Access::Operator, "Metrics in Prometheus's text format."),
        }
    }

    /// Bytes that it can take for what comes of the fleet and goes on, besides what any request takes.
    pub(crate) fn takes(self) -> usize {
        match self {
            // A run that has ended is told with its outcome.
            Self::RunInfo | Self::TakeOver => 2 << 20,
            Self::Exec | Self::ReadFile | Self::WriteFile | Self::SendUpload | Self::Artifact => 3 * Request::CHUNK,
            _ => 0,
        }
    }

    /// Whether it is an operation of tus, whose answers all name the version.
    pub(crate) fn is_of_tus(self) -> bool {
        matches!(self, Self::CreateUpload | Self::Upload | Self::SendUpload | Self::GiveUpUpload)
    }

    pub(crate) fn filter(self) -> MethodFilter {
        match self.facts().method {
            "post" => MethodFilter::POST,
            "put" => MethodFilter::PUT,
            "patch" => MethodFilter::PATCH,
            "delete" => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_is_of_a_tenant_needs_a_scope() {
        let without: Vec<_> = Op::ALL.iter().filter(|op| !matches!(op.facts().access, Access::Scope(_))).collect();
        assert_eq!(without, [&Op::Connect, &Op::Document, &Op::Alive, &Op::Ready, &Op::Metrics]);
        assert_eq!((Op::Connect.facts().access, Op::Metrics.facts().access), (Access::Sdk, Access::Operator));
    }

    #[test]
    fn no_two_operations_share_a_name_or_a_place() {
        let all: Vec<Facts> = Op::ALL.iter().map(|op| op.facts()).collect();
        let names: BTreeSet<_> = all.iter().map(|facts| facts.name).collect();
        let places: BTreeSet<_> = all.iter().map(|facts| (facts.method, facts.path)).collect();
        assert_eq!((names.len(), places.len()), (Op::ALL.len(), Op::ALL.len()));
    }
}
