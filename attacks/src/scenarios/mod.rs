//! Attacks whose attacker is more than one job: a tenant that speaks AMQP itself, jobs against the worker that all
//! tenants share, tenants that take the share of others, and files against the command line.
//!
//! Each attack is a file `<group>/<name>.rs`. It has a sheet like that of a program, and a function that tries the
//! attack and gives what it found. If the attack has a control, the same function is run with the guards off.

mod client;
mod exhaustion;
mod gateway;
mod run;
mod tenant;
mod worker;

pub use run::{client as run_on_client, fleet as run_on_fleet};

use anyhow::{Context, Result, ensure};
use futures::future::LocalBoxFuture;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::sheet::Sheet;

/// An attack that is a function.
#[derive(Clone)]
pub struct Scenario {
    /// `<group>/<name>`.
    pub name: &'static str,
    /// What the attack says about itself.
    pub sheet: Sheet,
    /// The function that tries it.
    pub attempt: Attempt,
}

/// The function that tries an attack, by what it attacks.
#[derive(Clone, Copy)]
pub enum Attempt {
    /// A fleet of real processes.
    Fleet(for<'a> fn(&'a Site) -> LocalBoxFuture<'a, Result<Evidence>>),
    /// The command line. The flag is true if the guard must be off.
    Client(fn(bool) -> Result<Evidence>),
}

impl Scenario {
    /// The attack's group.
    pub fn group(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// The attack's file, relative to the folder of this package.
    pub fn file(&self) -> String {
        format!("src/scenarios/{}.rs", self.name)
    }
}

/// Makes a scenario from an entry in its group's table.
fn scenario(name: &'static str, sheet: &str, attempt: Attempt) -> Result<Scenario> {
    let sheet = Sheet::read(sheet).with_context(|| format!("the sheet of {name}"))?;
    ensure!(sheet.control.is_some() != sheet.uncontrolled.is_some(), "{name}: say either `control` or `uncontrolled`");
    ensure!(sheet.control.is_some() != sheet.open.is_empty(), "{name}: `open` is what a control finds");
    Ok(Scenario { name, sheet, attempt })
}

/// Makes the function `all` of a group whose attacks run on a fleet.
macro_rules! on_fleet {
    ($group:literal: $($name:ident),+ $(,)?) => {
        /// All attacks of the group.
        pub(super) fn all() -> anyhow::Result<Vec<super::Scenario>> {
            [$(super::scenario(
                concat!($group, "/", stringify!($name)),
                $name::SHEET,
                super::Attempt::Fleet(|site| Box::pin($name::attempt(site))),
            )),+].into_iter().collect()
        }
    };
}

/// Makes the function `all` of a group whose attacks run on the command line.
macro_rules! on_client {
    ($group:literal: $($name:ident),+ $(,)?) => {
        /// All attacks of the group.
        pub(super) fn all() -> anyhow::Result<Vec<super::Scenario>> {
            [$(super::scenario(concat!($group, "/", stringify!($name)), $name::SHEET, super::Attempt::Client($name::attempt))),+]
                .into_iter()
                .collect()
        }
    };
}

use {on_client, on_fleet};

/// All scenarios, in the order of their names.
///
/// # Errors
/// A sheet has a wrong form.
pub fn load() -> Result<Vec<Scenario>> {
    let mut all = [client::all()?, exhaustion::all()?, gateway::all()?, tenant::all()?, worker::all()?].concat();
    all.sort_by_key(|scenario| scenario.name);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_is_in_the_table_and_every_sheet_is_one() {
        let package = crate::program::folder().join("..");
        let listed: BTreeSet<String> = load().unwrap().iter().map(Scenario::file).collect();
        let mut there = BTreeSet::new();
        for group in ["client", "exhaustion", "gateway", "tenant", "worker"] {
            for entry in std::fs::read_dir(package.join("src/scenarios").join(group)).unwrap() {
                there.insert(format!("src/scenarios/{group}/{}", entry.unwrap().file_name().to_string_lossy()));
            }
        }
        assert_eq!(listed, there);
    }
}
