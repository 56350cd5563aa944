//! The client that submitted a job answers the calls of its code. A call goes to the job's reply queue, and its answer
//! comes through the worker's queue `calls`.

mod answers;
mod outstanding;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use thermae_backplane::bus::{self, SharedBus};
use thermae_backplane::record::Address;
use thermae_schemas::{ErrorCode, IfClientGone, PoolName, WorkerId, names};
use tokio_util::sync::CancellationToken;

use super::{Answer, Approvals, Call, Keeper, Provider, Refused};
use crate::attempt::reply;
use crate::context::Context;
use crate::pending::WaitsFor;
use crate::pool::Pool;
use crate::requests::Requests;
use crate::wire;
use outstanding::Outstanding;

/// Asks the client that submitted the job.
pub(crate) struct Client {
    bus: SharedBus,
    worker: WorkerId,
    /// The pools, which count what each tenant moves through the servers.
    pools: BTreeMap<PoolName, Arc<Pool>>,
    calls: Outstanding,
}

impl Client {
    pub(crate) fn new(bus: SharedBus, worker: WorkerId, pools: BTreeMap<PoolName, Arc<Pool>>, keeper: Keeper) -> Self {
        Self { bus, worker, pools, calls: Outstanding::new(keeper) }
    }

    /// Takes the clients' answers, what they say about requests to sessions, and decisions about calls that wait for
    /// approval, until `end`. Without this, no call is answered.
    pub(crate) fn answers(
        &self,
        ctx: Arc<Context>,
        requests: Arc<Requests>,
        approvals: Arc<Approvals>,
        end: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        answers::run(ctx, self.calls.clone(), requests, approvals, end)
    }
}

#[async_trait]
impl Provider for Client {
    async fn call(&self, call: Call<'_>) -> Answer {
        let Call { work, entry, tool, arguments, within, open, .. } = call;
        let tenant = &work.key.tenant;
        let gone = || Refused::new(ErrorCode::ClientGone, format!("no client is there to answer the call of {tool:?}"));
        let internal = |error: &dyn std::error::Error| Refused::new(ErrorCode::Internal, error.to_string());
        // The job's token may name the client that answers. No other client gets the call, whoever has the run.
        let named = open
            .gate()
            .allowed()
            .and_then(|allowed| allowed.answers())
            .map(|client| Address { reply_key: names::reply_key(tenant, client), correlation_id: None });
        let address = || named.clone().or_else(|| entry.address());
        let (to, patient) = (address(), work.job.if_client_gone == IfClientGone::Wait);
        if to.is_none() && !patient {
            return Err(gone());
        }
        let mut waiting = self.calls.begin(&work.key);
        let message = wire::Call {
            call: &waiting.call,
            tool,
            arguments: &arguments,
            reply_to: &names::calls_key(tenant, &self.worker),
            within_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
        };
        let body = wire::tool_call(work, message).map_err(|e| internal(&e))?;
        drop(arguments);
        let _kept = entry.course.pending.add(&waiting.call, tool, &body, within, WaitsFor::Answer);
        let traffic = self.pools.get(&work.job.pool).map(|pool| pool.traffic());
        if let Some(traffic) = traffic {
            traffic.wait_for_allowance(tenant).await;
            traffic.count(tenant, body.len());
        }
        let failed = async {
            let publish = async {
                if !work.job.stream.is_empty() {
                    // The code's events take another channel, and the call could overtake them. They may get lost, the
                    // call may not.
                    let _ = self.bus.flush().await;
                }
                // The call may have waited, and another client may have the run by now.
                let Some(to) = address().or(to) else { return Ok(()) };
                let sent = self.bus.publish(reply(work, to, body, false)).await?.wait().await;
                open.left();
                sent
            };
            match publish.await {
                // If the connection was lost, it is not known whether the call arrived. A tool may have an effect, so
                // the call is not sent twice. The answer may still come.
                Ok(()) | Err(bus::Error::Disconnected(_)) => std::future::pending().await,
                // Whoever takes the run over finds the call among those that wait.
                Err(bus::Error::Unroutable { .. }) if patient => std::future::pending().await,
                Err(bus::Error::Unroutable { .. }) => gone(),
                Err(e) => internal(&e),
            }
        };
        // The answer may come before the broker's confirm.
        let answer = tokio::select! {
            biased;
            answer = waiting.answer() => answer,
            refused = failed => Err(refused),
        };
        if let (Some(traffic), Ok(kept)) = (traffic, &answer) {
            traffic.count(tenant, kept.bytes());
        }
        answer
    }
}
