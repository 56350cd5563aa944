//! Attacks on the sandbox, on the fleet and on the command line. Each one is really tried, and is proven to have been
//! tried.
//!
//! ```text
//! programs/<group>/<name>.py ─▶ sheet (what is tried, what would be won, which guard holds, what must be found)
//!                             └▶ jobs ─▶ site: scheduler + worker in this process ─▶ evidence ─┐
//!                             └▶ control: the same program, no sandbox around it ─▶ evidence ──┴▶ judge ─▶ report
//! ```
//!
//! An attack's program never judges itself. It reports what it tried and what the kernel answered. This arrives as the
//! job's displays and value, and is compared out here. An attack has *held* if all of its evidence arrived and is what
//! the guard gives. Most attacks also have a positive control: the same program, run by the plain interpreter with the
//! guard off, gets through. This shows that it is the guard that stops the attack.
//!
//! `docs/security.md` has the threat model, and `docs/attacks.md` the index of the attacks. [`index`] makes the index,
//! and a test compares the page with it.

#![forbid(unsafe_code)]

pub mod control;
pub mod evidence;
pub mod fleet;
pub mod index;
pub mod judge;
pub mod machine;
pub mod program;
pub mod report;
pub mod scenarios;
pub mod sheet;
pub mod site;
pub mod suite;
pub mod targets;
pub mod thermae;
pub mod tools;
