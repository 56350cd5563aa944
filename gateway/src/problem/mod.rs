//! Why a request fails, as a problem detail (RFC 9457) with a stable code.

mod codes;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thermae_bridge::Refusal;
use thermae_schemas::{ErrorCode, ErrorInfo};

pub use codes::{CODES, Code};

/// Media type of problem details.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// Why a request fails.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// Stable code: one of [`CODES`], or of the codes of outcomes.
    pub(crate) code: &'static str,
    /// What happened. It contains no secret.
    pub(crate) detail: String,
    /// What to do about it.
    pub(crate) advice: Option<String>,
    /// Seconds after which it can help to try again.
    pub(crate) retry_after: Option<u32>,
    /// Fields of its own.
    pub(crate) more: Map<String, Value>,
}

impl Problem {
    /// A problem of the gateway's own, whose code is in [`CODES`].
    pub(crate) fn new(code: &'static str, detail: impl Into<String>) -> Self {
        let known = CODES.iter().find(|known| known.code == code);
        debug_assert!(known.is_some(), "{code} is not listed");
        let status = known.map_or(StatusCode::INTERNAL_SERVER_ERROR, |known| {
            StatusCode::from_u16(known.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        });
        let advice = known.map(|known| known.advice.to_owned()).filter(|advice| !advice.is_empty());
        let retry_after = matches!(status.as_u16(), 429 | 503).then_some(1);
        Self { status, code, detail: detail.into(), advice, retry_after, more: Map::new() }
    }

    /// Whether it says that a session is gone.
    pub(crate) fn session_is_gone(&self) -> bool {
        matches!(self.code, "session_lost" | "session_expired" | "session_evicted")
    }

    /// Adds a field.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// The problem as JSON.
    fn body(&self, request_id: &str) -> Value {
        let mut body = json!({
            "type": format!("urn:thermae:error:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "code": self.code,
            "request_id": request_id,
        });
        if let Some(advice) = &self.advice {
            body["advice"] = json!(advice);
        }
        if let Some(fields) = body.as_object_mut() {
            fields.extend(self.more.clone());
        }
        body
    }

    /// The answer.
    pub(crate) fn into_answer(self, request_id: &str) -> Response {
        let mut answer = Response::new(Body::from(format!("{}\n", self.body(request_id))));
        *answer.status_mut() = self.status;
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::UPGRADE_REQUIRED {
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        }
        if matches!(self.code, "slow_body" | "body_too_large") {
            // The rest of the body is not read.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}

/// The status of an error that the fleet reports for something other than a run's outcome.
fn status_of(code: ErrorCode) -> StatusCode {
    use ErrorCode::*;
    match code {
        MalformedJson => StatusCode::BAD_REQUEST,
        UnknownField | SchemaViolation | UnsupportedProtocol | BadPath | BadCapability | LimitTooHigh
        | UnsupportedLanguage | TokenMalformed | TokenTooLarge | TokenTooManyBlocks => StatusCode::UNPROCESSABLE_ENTITY,
        TokenUnknownKey | TokenBadSignature | TokenRevoked | TokenForeignTenant | TokenNotYetValid | TokenExpired => {
            StatusCode::FORBIDDEN
        }
        JobTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        CheckpointTooLarge => StatusCode::INSUFFICIENT_STORAGE,
        SessionLost | SessionExpired | SessionEvicted | UnknownRef | UnknownPool | CheckpointMissing
        | TokenUnsupported => StatusCode::NOT_FOUND,
        IdConflict | IdempotencyConflict | CheckpointUnsupported => StatusCode::CONFLICT,
        QuotaExceeded | SessionLimit => StatusCode::TOO_MANY_REQUESTS,
        Cancelled | ApprovalDecided => StatusCode::CONFLICT,
        ApprovalOver => StatusCode::GONE,
        WallTimeout => StatusCode::GATEWAY_TIMEOUT,
        NoWorker | BackendUnavailable | RegistryFull | StoreUnavailable | TokenUnverifiable => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_GATEWAY,
    }
}

impl From<ErrorInfo> for Problem {
    fn from(error: ErrorInfo) -> Self {
        let status = status_of(error.code);
        Self {
            status,
            code: error.code.as_str(),
            detail: error.message,
            advice: None,
            retry_after: (error.safe_to_retry && matches!(status.as_u16(), 429 | 503)).then_some(1),
            more: Map::from_iter([("safe_to_retry".to_owned(), json!(error.safe_to_retry))]),
        }
    }
}

impl From<(ErrorCode, String)> for Problem {
    fn from((code, message): (ErrorCode, String)) -> Self {
        ErrorInfo::new(code, message).into()
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let known = CODES.iter().find(|known| known.code == refusal.code).map(|known| known.code);
        let mut problem = match (known, ErrorCode::ALL.iter().find(|(_, text, _, _)| *text == refusal.code)) {
            (Some(code), _) => Self::new(code, refusal.message),
            (None, Some((code, ..))) => (*code, refusal.message).into(),
            (None, None) => Self::new("fleet_failed", refusal.message),
        };
        problem.advice = refusal.advice.map(str::to_owned).or(problem.advice);
        problem
    }
}

impl From<thermae_client::Error> for Problem {
    fn from(error: thermae_client::Error) -> Self {
        Refusal::from(error).into()
    }
}

impl From<thermae_worker::ArtifactsError> for Problem {
    fn from(error: thermae_worker::ArtifactsError) -> Self {
        Refusal::from(error).into()
    }
}

/// A problem detail, as callers see it. Further fields may be added.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) struct ProblemView {
    /// A URI for the kind of problem: `urn:thermae:error:` and the code.
    pub(crate) r#type: String,
    /// The status in words.
    pub(crate) title: String,
    /// The status of the answer.
    #[schemars(range(min = 400, max = 599))]
    pub(crate) status: u16,
    /// What happened.
    pub(crate) detail: String,
    /// Stable code of the problem.
    pub(crate) code: String,
    /// Id of the request, which is also in the header `X-Request-Id`.
    pub(crate) request_id: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) advice: Option<String>,
    /// Name of the kernel's error, if an operation on files failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) errno: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_listed_once_with_a_status_of_an_error() {
        let mut seen = std::collections::BTreeSet::new();
        for code in CODES {
            assert!((400..600).contains(&code.status) && seen.insert(code.code), "{code:?}");
            assert!(code.meaning.ends_with('.'), "{code:?}");
        }
    }

    #[test]
    fn a_refusal_of_the_fleet_keeps_its_code_and_advice() {
        let problem = Problem::from(Refusal::new("queue_full", "full").advice("wait"));
        assert_eq!(
            (problem.status.as_u16(), problem.code, problem.advice.as_deref()),
            (429, "queue_full", Some("wait"))
        );
        let problem = Problem::from(Refusal::new("job_too_large", "large"));
        assert_eq!((problem.status.as_u16(), problem.code), (413, "job_too_large"));
        assert_eq!(Problem::from(Refusal::new("never_heard_of", "?")).code, "fleet_failed");
    }
}
