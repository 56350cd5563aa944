//! What every registry does.

mod credit;
mod outcomes;
mod records;
mod sessions;
mod workers;

use std::time::Duration;

pub use credit::*;
pub use outcomes::*;
pub use records::*;
pub use sessions::*;
pub use workers::*;

/// A lease, or the time that a record is kept, that passes during a test.
const BRIEF: Duration = Duration::from_millis(60);
