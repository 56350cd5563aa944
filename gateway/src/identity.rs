//! Who a request comes from, and what that one may do.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{HeaderMap, header};
use thermae_schemas::{Scope, Scopes, TenantName};

use crate::call::single;
use crate::problem::Problem;

/// Who a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The tenant as which the caller acts. The caller sees nothing of any other one.
    pub tenant: TenantName,
    /// What the caller may do.
    pub scopes: Scopes,
    /// Id of the API key that was shown. It is no secret. `None`: the gateway's own token.
    pub key: Option<Arc<str>>,
    /// Most runs that may be under way for this key at once. `None` is no bound of the key's own.
    pub runs_at_once: Option<NonZeroU32>,
    /// Whether the caller runs the gateway, and may see figures that are about all tenants.
    pub operator: bool,
}

/// Finds out who a request comes from.
#[async_trait]
pub trait Identity: Send + Sync {
    /// The caller who shows this secret, which may be any text. It counts as one request against the limits of the
    /// caller.
    ///
    /// # Errors
    /// The caller is refused. If nobody knows, the answer is [`Denied::Unavailable`]: nothing may fail open.
    async fn caller(&self, secret: &str) -> Result<Caller, Denied>;

    /// Whether this caller, who was let in before, may go on. It counts as no request. Long answers ask it now and
    /// then.
    ///
    /// # Errors
    /// As for [`Identity::caller`].
    async fn goes_on(&self, caller: &Caller) -> Result<(), Denied>;
}

/// A request that is refused for what it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It is not the gateway's token.
    #[error("the token is not this gateway's")]
    Token,
    /// It is no API key.
    #[error("the text is no API key")]
    Malformed,
    /// There is no such key.
    #[error("there is no such API key")]
    Unknown,
    /// The key is revoked.
    #[error("the API key is revoked")]
    Revoked,
    /// The key has expired.
    #[error("the API key has expired")]
    Expired,
    /// The key has made as many requests as it may. The next one is possible after this time.
    #[error("the API key has made as many requests as it may")]
    Rate(Duration),
    /// Nobody knows, because the store of keys gives no answer.
    #[error("the store of API keys gives no answer, so nothing is allowed")]
    Unavailable,
}

impl Denied {
    /// Stable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::Token => "bad_token",
            Self::Malformed => "key_malformed",
            Self::Unknown => "key_unknown",
            Self::Revoked => "key_revoked",
            Self::Expired => "key_expired",
            Self::Rate(_) => "rate_limited",
            Self::Unavailable => "keys_unavailable",
        }
    }

    /// The label of the metric that counts it.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Malformed | Self::Unknown | Self::Revoked | Self::Expired => "key",
            Self::Rate(_) => "rate",
            Self::Unavailable => "store",
        }
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let problem = Self::new(denied.code(), denied.to_string());
        let Denied::Rate(wait) = denied else { return problem };
        let seconds = u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX).max(1);
        Self { retry_after: Some(seconds), ..problem }
    }
}

impl Caller {
    /// How audit logs name the caller. `None`: the gateway's own token, which names nobody.
    pub(crate) fn named(&self) -> Option<String> {
        self.key.as_ref().map(|key| format!("API key {key}"))
    }

    /// Checks that the caller has a scope.
    pub(crate) fn needs(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.has(scope) {
            return Ok(());
        }
        let detail = format!("the operation needs the scope `{scope}`, which the API key does not have");
        Err(Problem::new("missing_scope", detail).with("scope", scope.as_str()))
    }
}

/// The secret that a request shows: the header `Authorization` with the scheme `Bearer`.
pub(crate) fn secret(headers: &HeaderMap) -> Result<&str, Problem> {
    let shown = single(headers, &header::AUTHORIZATION)?;
    let bearer = shown.and_then(|value| {
        let (scheme, secret) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim_matches(' '))
    });
    bearer.ok_or_else(|| {
        let detail = match shown {
            Some(_) => "the header Authorization is not of the form `Bearer SECRET`",
            None => "the request has neither a token nor an API key",
        };
        Problem::new("unauthorized", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_in_whole_seconds_and_never_too_short() {
        let after = |millis| Problem::from(Denied::Rate(Duration::from_millis(millis))).retry_after;
        assert_eq!([0, 1, 1000, 1001, u64::MAX].map(after), [1, 1, 1, 2, u32::MAX].map(Some));
    }

    #[test]
    fn every_refusal_has_a_listed_code_and_a_fitting_status() {
        for (denied, status) in [
            (Denied::Token, 401),
            (Denied::Malformed, 401),
            (Denied::Unknown, 401),
            (Denied::Revoked, 401),
            (Denied::Expired, 401),
            (Denied::Rate(Duration::ZERO), 429),
            (Denied::Unavailable, 503),
        ] {
            let problem = Problem::from(denied);
            assert_eq!((problem.status.as_u16(), problem.code), (status, denied.code()));
            assert!(crate::metrics::REFUSALS.contains(&denied.reason()), "{denied:?}");
        }
    }
}
