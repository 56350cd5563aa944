//! The table of all operations. The router and the OpenAPI document are both made from it.

use axum::routing::MethodFilter;

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
    Artifact,
    Sessions,
    CloseSession,
    Exec,
    ListFiles,
    ReadFile,
    WriteFile,
    RemoveFile,
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
    /// Whether the request must carry the token.
    pub(crate) guarded: bool,
}

impl Op {
    pub(crate) const ALL: [Op; 21] = [
        Op::Submit,
        Op::Runs,
        Op::Run,
        Op::RunInfo,
        Op::TakeOver,
        Op::Cancel,
        Op::Events,
        Op::Answer,
        Op::Artifact,
        Op::Sessions,
        Op::CloseSession,
        Op::Exec,
        Op::ListFiles,
        Op::ReadFile,
        Op::WriteFile,
        Op::RemoveFile,
        Op::Connect,
        Op::Document,
        Op::Alive,
        Op::Ready,
        Op::Metrics,
    ];

    pub(crate) fn facts(self) -> Facts {
        let on = |method, path, name, summary| Facts { name, method, path, summary, guarded: true };
        let open = |path, name, summary| Facts { guarded: false, ..on("get", path, name, summary) };
        match self {
            Self::Submit => on("post", "/v1/runs", "submitRun", "Submit a job."),
            Self::Runs => on("get", "/v1/runs", "listRuns", "The runs that this gateway holds."),
            Self::Run => on("get", "/v1/runs/{id}", "getRun", "The state of a run, or its outcome."),
            Self::RunInfo => {
                on("get", "/v1/runs/{id}/info", "askForRun", "What the fleet knows of any run of the tenant.")
            }
            Self::TakeOver => {
                on("post", "/v1/runs/{id}/take-over", "takeRunOver", "Follow a run that was submitted elsewhere.")
            }
            Self::Cancel => on("delete", "/v1/runs/{id}", "cancelRun", "Cancel a run."),
            Self::Events => on("get", "/v1/runs/{id}/events", "followRun", "Follow the events of a run."),
            Self::Answer => on("post", "/v1/runs/{id}/calls/{call}", "answerCall", "Answer a tool call."),
            Self::Artifact => {
                on("get", "/v1/runs/{id}/artifacts/{*name}", "getArtifact", "The content of an artifact of a run.")
            }
            Self::Sessions => on("get", "/v1/sessions", "listSessions", "The live sessions."),
            Self::CloseSession => on("delete", "/v1/sessions/{name}", "closeSession", "Close a session."),
            Self::Exec => on("post", "/v1/sessions/{name}/exec", "exec", "Run a command in a live session."),
            Self::ListFiles => {
                on("get", "/v1/sessions/{name}/files", "listFiles", "The files in a session's /workspace.")
            }
            Self::ReadFile => {
                on("get", "/v1/sessions/{name}/files/{*path}", "readFile", "The content of a file of a session.")
            }
            Self::WriteFile => {
                on("put", "/v1/sessions/{name}/files/{*path}", "writeFile", "Write a file of a session.")
            }
            Self::RemoveFile => {
                on("delete", "/v1/sessions/{name}/files/{*path}", "removeFile", "Remove a file of a session.")
            }
            Self::Connect => on("get", "/v1/connect", "connect", "Speak the SDK's protocol over a WebSocket."),
            Self::Document => open("/v1/openapi.json", "getDocument", "This document."),
            Self::Alive => open("/healthz", "alive", "Whether the process runs."),
            Self::Ready => open("/readyz", "ready", "Whether the gateway takes jobs."),
            Self::Metrics => on("get", "/metrics", "metrics", "Metrics in Prometheus's text format."),
        }
    }

    pub(crate) fn filter(self) -> MethodFilter {
        match self.facts().method {
            "post" => MethodFilter::POST,
            "put" => MethodFilter::PUT,
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
    fn no_two_operations_share_a_name_or_a_place() {
        let all: Vec<Facts> = Op::ALL.iter().map(|op| op.facts()).collect();
        let names: BTreeSet<_> = all.iter().map(|facts| facts.name).collect();
        let places: BTreeSet<_> = all.iter().map(|facts| (facts.method, facts.path)).collect();
        assert_eq!((names.len(), places.len()), (Op::ALL.len(), Op::ALL.len()));
    }
}
