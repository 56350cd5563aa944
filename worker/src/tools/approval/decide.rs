//! Takes decisions from RabbitMQ. Who sent them is proven before they come here.

use thermae_backplane::bus::Message;
use thermae_backplane::record::Address;
use thermae_schemas::{
    Body, Decided, Decision, ErrorCode, ErrorInfo, Event, EventBody, JobId, PROTOCOL, TenantName, names, reads,
};

use super::Approvals;
use crate::context::Context;
use crate::runs;

/// Largest decision, in bytes.
const LARGEST: usize = 16 << 10;

impl Approvals {
    /// Takes a decision of this tenant, and answers it. Returns whether it counts and is the first about its call. One
    /// that is repeated gets the same answer, but it costs its tenant as much as one that nobody waits for.
    pub(crate) async fn decide(&self, ctx: &Context, tenant: &TenantName, message: &Message) -> bool {
        let read = read(&message.body);
        let id = read.as_ref().ok().map(|decision| decision.id.clone());
        let id = id.or_else(|| JobId::new(message.message_id.clone()?).ok());
        let (decided, first) = match read {
            Ok(decision) => {
                let (run, call) = (decision.run.clone(), decision.call.clone());
                let taken = self.table.decide(tenant, message.user_id.clone().unwrap_or_default(), decision);
                let (decided, _) = &taken;
                let code = decided.error.as_ref().map_or("taken", |error| error.code.as_str());
                tracing::info!(job.id = %run, job.tenant = %tenant, call, code, "a decision about a tool call");
                taken
            }
            Err((code, why)) => {
                tracing::warn!(job.tenant = %tenant, %why, "a decision about a tool call can't be read");
                (Decided { call: String::new(), verdict: None, error: Some(ErrorInfo::new(code, why)) }, false)
            }
        };
        let to = message.reply_to.clone().filter(|key| names::owns_reply_key(tenant, key));
        if let (Some(id), Some(reply_key)) = (id, to) {
            let to = Address { reply_key, correlation_id: message.correlation_id.clone() };
            runs::send(ctx, Event::new(id, 0, EventBody::Decided(decided)), to).await;
        }
        first
    }
}

fn read(body: &[u8]) -> Result<Decision, (ErrorCode, String)> {
    if body.len() > LARGEST {
        let why = format!("the decision has {} bytes; at most {LARGEST} are allowed", body.len());
        return Err((ErrorCode::SchemaViolation, why));
    }
    let bad = |why: String| (ErrorCode::SchemaViolation, why);
    let decision = Decision::parse(body).map_err(|error| bad(format!("the decision can't be read: {error}")))?;
    if !reads(decision.protocol) {
        let why = format!("protocol {} is not supported; this worker speaks {PROTOCOL}", decision.protocol);
        return Err((ErrorCode::UnsupportedProtocol, why));
    }
    decision.check().map_err(bad)?;
    Ok(decision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_that_can_t_be_read_is_refused() {
        let text = |more: &str, verdict: &str| {
            format!(r#"{{"protocol": 1, "id": "d", "run": "j", "call": "c", "verdict": {verdict}{more}}}"#)
        };
        assert!(read(text("", r#"{"decision": "approve"}"#).as_bytes()).is_ok());
        for bad in [
            text("", r#"{"decision": "deny", "calls": 2}"#),
            text(r#", "verdict": {"decision": "approve"}"#, r#"{"decision": "deny"}"#),
            text(r#", "approve": true"#, r#"{"decision": "approve"}"#),
            text(&format!(r#", "by": "{}""#, "x".repeat(LARGEST)), r#"{"decision": "approve"}"#),
            String::new(),
        ] {
            assert_eq!(read(bad.as_bytes()).unwrap_err().0, ErrorCode::SchemaViolation, "{bad}");
        }
        let old = text("", r#"{"decision": "approve"}"#).replace('1', "2");
        assert_eq!(read(old.as_bytes()).unwrap_err().0, ErrorCode::UnsupportedProtocol);
    }
}
