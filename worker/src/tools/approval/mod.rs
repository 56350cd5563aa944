//! Calls that wait for approval: the question to the client that follows the run, and the decision of whoever may
//! decide.
//!
//! ```text
//! Capable ─▶ Approvals::approved ─┬─ a yes that counts for more calls (`yeses`)
//!                                 └─ event `approval` ─▶ … ─▶ exchange `approvals` ─▶ `decide` ─▶ Table ─▶ the call
//! ```
//!
//! Nothing here fails open: a call is made only after a yes that was written to the audit log. A client that knows
//! nothing of approvals does not answer, and the call is not made.

mod ask;
mod decide;
mod table;
mod yeses;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use prometheus::IntCounterVec;
use thermae_backplane::bus::SharedBus;
use thermae_capabilities::At;
use thermae_schemas::{PoolName, WorkerId};

use crate::pool::Pool;
pub(crate) use ask::Ask;
use table::Table;
pub(crate) use yeses::Yeses;

/// The approval that a call needs.
#[derive(Debug, Clone)]
pub(crate) struct Needed {
    /// The capabilities that want it.
    pub at: Vec<At>,
    /// Pattern of the first of them.
    pub pattern: String,
    /// Most calls that one yes counts for.
    pub next: NonZeroU32,
    /// How long a call waits for the decision. `None`: as long as the call may wait at all.
    pub timeout: Option<Duration>,
}

/// Asks for approval, and takes decisions.
pub(crate) struct Approvals {
    bus: SharedBus,
    worker: WorkerId,
    /// The pools, which count what each tenant moves through the servers.
    pools: BTreeMap<PoolName, Arc<Pool>>,
    /// What came of calls that needed approval.
    counter: IntCounterVec,
    table: Table,
}

impl Approvals {
    pub(crate) fn new(
        bus: SharedBus,
        worker: WorkerId,
        pools: BTreeMap<PoolName, Arc<Pool>>,
        counter: IntCounterVec,
    ) -> Self {
        Self { bus, worker, pools, counter, table: Table::default() }
    }
}
