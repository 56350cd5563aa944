//! Clients' questions about their own tenant. The answers about sessions come from the workers' last heartbeats. For
//! those about runs, see [`run`].

use thermae_backplane::bus::Message;
use thermae_schemas::{Asked, Body, Event, EventBody, Query, SessionInfo, TenantName};

use crate::answer::Address;
use crate::context::Context;
use crate::error::Trouble;
use crate::run;

/// Answers one question of a tenant, through outages.
pub(crate) async fn answer(ctx: &Context, tenant: &TenantName, message: &Message) -> Result<(), Trouble> {
    let Ok(query) = Query::parse(&message.body) else {
        tracing::warn!(key = message.key, "a question that can't be read is dropped");
        return Ok(());
    };
    let to = Address::of(tenant, message);
    if to.reply_key.is_none() {
        tracing::debug!(%tenant, "a question without a usable reply key is dropped");
        return Ok(());
    }
    if !ctx.fleet.borrow().reads(query.protocol) {
        tracing::warn!(protocol = query.protocol, "a question of an unsupported protocol is dropped");
        return Ok(());
    }
    match query.what {
        Asked::Sessions => {
            ctx.persist(|| async {
                let body = EventBody::Sessions { sessions: sessions(ctx, tenant).await? };
                ctx.send_event(&Event::new(query.id.clone(), 0, body), &to).await
            })
            .await
        }
        Asked::Run(asked) => run::answer(ctx, tenant, &query.id, &asked, &to, message).await,
    }
}

async fn sessions(ctx: &Context, tenant: &TenantName) -> Result<Vec<SessionInfo>, Trouble> {
    let workers = ctx.registry.workers().await?;
    let mut sessions: Vec<_> = workers
        .into_iter()
        .flat_map(|beat| {
            let held = beat.sessions.into_iter().filter(|s| s.tenant == *tenant);
            held.map(move |s| SessionInfo {
                id: s.session,
                pool: s.pool,
                worker: beat.worker.clone(),
                expires_in_ms: s.expires_in_ms,
            })
        })
        .collect();
    sessions.sort_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
    Ok(sessions)
}
