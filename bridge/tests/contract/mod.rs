//! What holds for every SDK, whatever carries its frames. The program of tests that includes this has
//!
//! - `door::silent(embedded)`: a new SDK, and the fields with which it opens an embedded fleet with these options;
//! - `test(name, run)`: a test.

mod ends;
mod flow;
mod runs;
pub(crate) mod sdk;
mod sessions;
mod tools;
mod wrong;

use libtest_mimic::Trial;

pub(crate) fn tests() -> Vec<Trial> {
    let files = [runs::tests(), tools::tests(), flow::tests(), ends::tests(), sessions::tests(), wrong::tests()];
    files.into_iter().flatten().collect()
}
