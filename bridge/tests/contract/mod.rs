//! What holds for every client of a fleet, whatever leads there. A case says what it does in the operations of a
//! [`face::Face`], and is run with each face of the program of tests that includes this. What only frames have is in
//! [`commands`], [`flow`], [`pieces`] and [`wrong`], and at the end of [`ends`]. The program has
//!
//! - `door::FACES`: the names of its faces, and what opens each;
//! - `door::silent(embedded)`: a new SDK, and the fields with which it opens an embedded fleet with these options;
//! - `test(name, run)`: a test.

mod commands;
mod elsewhere;
mod ends;
pub(crate) mod face;
mod flow;
pub(crate) mod frames;
mod pieces;
mod refused;
mod runs;
pub(crate) mod sdk;
mod sessions;
mod tools;
mod wrong;

use anyhow::Result;
use futures::future::BoxFuture;
use libtest_mimic::Trial;

use self::face::Face;
use crate::{door, test};

/// What holds for every face.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// Slots of its fleet.
    slots: u32,
    run: fn(Box<dyn Face>) -> BoxFuture<'static, Result<()>>,
}

pub(crate) fn tests() -> Vec<Trial> {
    let cases = [runs::cases(), tools::cases(), ends::cases(), sessions::cases(), elsewhere::cases(), refused::cases()];
    let cases: Vec<Case> = cases.into_iter().flatten().collect();
    let mut tests = Vec::new();
    for (face, opens) in door::FACES {
        for case in cases.clone() {
            let run = move || async move { (case.run)(opens(case.slots).await?).await };
            tests.push(test(&format!("{face}::{}", case.name), run));
        }
    }
    let of_frames = [commands::tests(), ends::tests(), flow::tests(), pieces::tests(), wrong::tests()];
    tests.extend(of_frames.into_iter().flatten());
    tests
}

/// A case that needs this many slots.
fn case(name: &'static str, slots: u32, run: fn(Box<dyn Face>) -> BoxFuture<'static, Result<()>>) -> Case {
    Case { name, slots, run }
}
