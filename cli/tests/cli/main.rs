//! Tests of the real program, as a user calls it, on the embedded fleet with real sandboxes.

mod approvals;
mod audit;
mod batch;
mod bridge;
mod credentials;
mod doctor;
mod files;
mod key;
mod killed;
mod page;
mod pages;
mod readme;
mod run;
mod serve;
mod terminal;
mod texts;
mod thermae;
mod tokens;
mod trust;
