//! Attacks on the sandbox, each really tried from inside one, over the real fleet, and each shown to have been tried.
//!
//! ```text
//! programs/<group>/<name>.py ─▶ sheet (what is tried, what would be won, which guard holds, what must be found)
//!                             └▶ jobs ─▶ site: scheduler + worker in this process ─▶ evidence ─┐
//!                             └▶ control: the same program, no sandbox around it ─▶ evidence ──┴▶ judge ─▶ report
//! ```
//!
//! An attack's program never judges itself. It tells what it tried and what the kernel answered; that arrives as the job's value, and
//! is compared out here. An attack has *held* when all of its evidence arrived and is what the guard gives. Most also have a positive
//! control: the same program, run by the plain interpreter with the guard off, gets through, which shows that it is the guard that
//! stops it.
//!
//! `docs/security.md` has the threat model and the index of the attacks; [`index`] makes that index, and a test holds the page to it.

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
