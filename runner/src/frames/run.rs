//! The frame that runs a program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[cfg(doc)]
use super::Setup;
use super::{Limits, Tool};

/// Where a run takes place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "in")]
pub enum Place {
    /// A fresh sandbox that ends with the run.
    Fresh,
    /// The named session's sandbox. It is made if it doesn't exist and `create` is set.
    Session {
        /// Opaque name, unique in the container.
        session: String,
        /// Whether the session may be made.
        create: bool,
    },
}

/// Runs one program. The run's number is that of the frame.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// Name of the language.
    pub language: String,
    /// The program.
    pub code: String,
    /// A command and its arguments, in place of a program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// Text for standard input; `None` is an empty input.
    #[serde(default)]
    pub stdin: Option<String>,
    /// Environment variables added to the sandbox's own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// JSON values that the code finds under these names. Only Python has inputs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Box<RawValue>>,
    /// The sandbox to run in.
    pub place: Place,
    /// Limits; those above [`Setup::ceiling`] are lowered to it.
    pub limits: Limits,
    /// Tools the code may call.
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// Whether calling a tool gives its result, and not something to await. Only Python has both.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync_tools: bool,
    /// Whether somebody reads the output while the program runs. Each line is then sent at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

impl Run {
    /// Whether there is nothing to run, as when a session is only closed. Such a run fits every language.
    pub fn does_nothing(&self) -> bool {
        self.code.is_empty() && self.argv.is_empty() && self.inputs.is_empty()
    }
}
