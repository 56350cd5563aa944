//! Capability tokens: minted with the operator's key, narrowed, and shown.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use thermae_bridge::read::{bounded, fields};
use thermae_schemas::optional::{Integer, integer};
use thermae_schemas::{Capabilities, ClientId, ErrorCode, TenantName};
use thermae_tokens::{Grant, Issuer, Narrowing, TokenId, Trust, Unwritten, attenuate, revocation_ids};

use crate::problem::Problem;

/// What a gateway can do with capability tokens. Narrowing needs nothing of it.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    /// Mints tokens, each for the tenant of the caller. `None`: the gateway mints none (`no_issuer`).
    pub issuer: Option<Arc<Issuer>>,
    /// Whose tokens are shown. `None`: the gateway shows none (`token_unsupported`).
    pub trust: Option<Arc<Trust>>,
}

/// Longest time for which a token can be minted: a year.
const LONGEST_MS: u64 = 366 * 24 * 3600 * 1000;

/// A token that shall be minted, for the caller's own tenant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MintRequest {
    /// Which calls it allows.
    capabilities: Capabilities,
    /// How long it is valid, in milliseconds, at most 366 days.
    #[serde(deserialize_with = "integer")]
    #[schemars(range(min = 1000, max = 31_622_400_000_u64))]
    expires_in_ms: u64,
    /// Most calls in all, of this token and of all that is made from it.
    #[serde(default, deserialize_with = "given_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NonZeroU32")]
    calls: Option<NonZeroU32>,
    /// The client to which its calls go; by default, the client that has the run.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ClientId")]
    answers: Option<ClientId>,
}

/// A token, and what is taken away from it. At least one of the other fields must be there.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NarrowRequest {
    /// The token.
    token: String,
    /// A set that must allow a call, too.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Capabilities")]
    capabilities: Option<Capabilities>,
    /// How long the narrowed token is valid, in milliseconds. It can't be valid for longer than the token.
    #[serde(default, deserialize_with = "given_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1000, max = 31_622_400_000_u64))]
    expires_in_ms: Option<u64>,
    /// Most calls of the narrowed token, and of all that is made from it.
    #[serde(default, deserialize_with = "given_integer", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NonZeroU32")]
    calls: Option<NonZeroU32>,
}

/// A token that shall be shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowRequest {
    /// The token.
    token: String,
}

/// A field that is there. Null is no way to leave it out: without the field, the token may allow more.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// [`given`], for an integer.
fn given_integer<'de, D: Deserializer<'de>, T: Integer>(from: D) -> Result<Option<T>, D::Error> {
    integer(from).map(Some)
}

/// A token that was written.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TokenView {
    /// The token. It is a secret.
    token: String,
    /// The id under which it is revoked, and all that is made from it.
    revocation_id: String,
}

/// What a valid token says.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShownView {
    /// The token's own id, which its narrowings share.
    id: String,
    /// The client to which its calls go.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ClientId")]
    answers: Option<ClientId>,
    /// When it stops being valid, in milliseconds since 1970.
    expires_ms: u64,
    /// The sets, of which each must allow a call.
    capabilities: Vec<Capabilities>,
    /// The limits of all calls together, each of the token and of all that was made from the same block.
    calls: Vec<u32>,
    /// The ids of its blocks, the issuer's first. The last one is its own.
    revocation_ids: Vec<String>,
}

impl Tokens {
    /// Mints a token for jobs of this tenant.
    pub(crate) fn mint(&self, text: &[u8], tenant: &TenantName) -> Result<TokenView, Problem> {
        let request: MintRequest = read(text)?;
        let Some(issuer) = &self.issuer else {
            return Err(Problem::new("no_issuer", "this gateway has no key to mint tokens with"));
        };
        let grant = Grant {
            id: TokenId::random(),
            tenant: tenant.clone(),
            answers: request.answers,
            not_before: None,
            expires: end(request.expires_in_ms)?,
            set: request.capabilities,
            calls: request.calls,
        };
        view(issuer.mint(&grant))
    }

    /// Shows a token of this tenant. May read files.
    pub(crate) fn show(&self, text: &[u8], tenant: &TenantName) -> Result<ShownView, Problem> {
        let ShowRequest { token } = read(text)?;
        let trust = self.trust.as_ref().ok_or_else(|| {
            Problem::from((ErrorCode::TokenUnsupported, "this gateway has no public keys".to_owned()))
        })?;
        let verifier = trust.verifier().map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "tokens can't be verified");
            let why = "the gateway can't read its public keys or its list of revoked tokens; its log says why";
            Problem::from((ErrorCode::TokenUnverifiable, why.to_owned()))
        })?;
        let verified = verifier.verify(&token, tenant, SystemTime::now());
        let token = verified.map_err(|refused| Problem::from((refused.code(), refused.to_string())))?;
        let expires = token.expires.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(ShownView {
            id: token.id.to_string(),
            answers: token.answers,
            expires_ms: u64::try_from(expires.as_millis()).unwrap_or(u64::MAX),
            capabilities: token.rules.sets().to_vec(),
            calls: token.calls.iter().map(|limit| limit.most.get()).collect(),
            revocation_ids: token.blocks.iter().map(ToString::to_string).collect(),
        })
    }
}

/// Narrows a token. The token's signatures are not checked: whoever uses it does that.
pub(crate) fn narrow(text: &[u8]) -> Result<TokenView, Problem> {
    let request: NarrowRequest = read(text)?;
    let expires = request.expires_in_ms.map(end).transpose()?;
    let narrowing = Narrowing { set: request.capabilities, expires, calls: request.calls };
    view(attenuate(&request.token, &narrowing))
}

fn read<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, Problem> {
    bounded(text, "request")?;
    Ok(fields(&mut serde_json::Deserializer::from_slice(text))?)
}

fn end(after_ms: u64) -> Result<SystemTime, Problem> {
    if !(1000..=LONGEST_MS).contains(&after_ms) {
        let why = format!("/expires_in_ms: from 1000 to {LONGEST_MS}");
        return Err((ErrorCode::SchemaViolation, why).into());
    }
    Ok(SystemTime::now() + Duration::from_millis(after_ms))
}

fn view(written: Result<thermae_tokens::Token, Unwritten>) -> Result<TokenView, Problem> {
    let token = written.map_err(|error| match error {
        Unwritten::Malformed(_) => Problem::from((ErrorCode::TokenMalformed, error.to_string())),
        Unwritten::TooLarge(_) => Problem::from((ErrorCode::TokenTooLarge, error.to_string())),
        Unwritten::TooManyBlocks(_) => Problem::from((ErrorCode::TokenTooManyBlocks, error.to_string())),
        Unwritten::Random => Problem::new("internal_error", error.to_string()),
        Unwritten::Nothing | Unwritten::LaterExpiry | Unwritten::NeverValid | Unwritten::Time | Unwritten::Sealed => {
            Problem::new("token_not_written", error.to_string())
        }
    })?;
    let ids = revocation_ids(token.as_str()).map_err(|refused| Problem::from((refused.code(), refused.to_string())))?;
    let own = ids.last().ok_or_else(|| Problem::new("internal_error", "the token has no blocks"))?;
    Ok(TokenView { revocation_id: own.to_string(), token: token.into() })
}
