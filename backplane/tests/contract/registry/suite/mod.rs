//! The contract suite of the registry: what every implementation does.

mod counts;
mod credit;
mod outcomes;
mod records;
mod sessions;
mod taken;
mod workers;

use std::time::Duration;

pub use counts::*;
pub use credit::*;
pub use outcomes::*;
pub use records::*;
pub use sessions::*;
pub use taken::*;
pub use workers::*;

/// A lease, or the time that a record is kept: short enough to pass during a test. Some steps must come before it passes,
/// also on a busy machine.
const BRIEF: Duration = Duration::from_secs(1);
