//! Somebody who may approve the calls of the tenant `acme`, and can't submit anything.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use thermae_client::Error;
use thermae_fleet::RemoteOptions;
use thermae_schemas::{Decided, Decision, JobId, PendingApproval, RunQuery, Verdict};

use crate::servers::Servers;

/// RabbitMQ's user for it.
pub(crate) const APPROVER: &str = "acme.approver";

/// How long the fleet may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Longer than a run takes to start and to make its calls.
const ASKED_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection of the user [`APPROVER`].
pub(crate) struct Approver(thermae_fleet::Fleet);

impl Approver {
    pub(crate) async fn connect(servers: &Servers) -> Result<Self> {
        let amqp = servers.as_user(APPROVER, APPROVER)?;
        let options = RemoteOptions { tenant: Some("acme".to_owned()), ..RemoteOptions::new(amqp) };
        Ok(Self(thermae_fleet::Fleet::connect(options).await?))
    }

    /// Waits until so many calls of a run wait for approval, and gives them.
    pub(crate) async fn asked(&self, run: &JobId, calls: usize) -> Result<Vec<PendingApproval>> {
        let asked = async {
            loop {
                let info = self.0.client().run_info(RunQuery::new(run.clone()), ANSWER_WITHIN).await?;
                if info.approvals.len() == calls {
                    return anyhow::Ok(info.approvals);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let late = || format!("{calls} calls should wait for approval");
        tokio::time::timeout(ASKED_TIMEOUT, asked).await.with_context(late)?
    }

    /// Says yes to a call. Without `reply_to`, the fleet is asked for it.
    pub(crate) async fn say_yes(&self, run: &JobId, call: &str, reply_to: Option<&str>) -> Result<Decided, Error> {
        let decision = Decision::new(run.clone(), call, Verdict::approve(NonZeroU32::MIN));
        self.0.client().decide(&decision, reply_to, ANSWER_WITHIN).await
    }

    /// Says yes to each of these calls, and checks that it counts.
    pub(crate) async fn approve(&self, run: &JobId, calls: &[PendingApproval]) -> Result<()> {
        for asked in calls {
            let decided = self.say_yes(run, &asked.call, Some(&asked.reply_to)).await?;
            ensure!(decided.error.is_none(), "{decided:?}");
        }
        Ok(())
    }
}
