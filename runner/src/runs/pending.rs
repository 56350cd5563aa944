//! Runs that wait for a sandbox, and what a sandbox's process is told of one.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;

use crate::files;
use crate::frames::{Parameter, Place, Run, Tool};
use crate::languages::Flavor;

/// How many sandboxes may die under a run before its code starts. Then the run ends.
pub(super) const MOST_LOST: u32 = 2;

/// A run that has no sandbox yet.
pub(super) struct Pending {
    pub(super) number: u32,
    pub(super) run: Run,
    /// Its input files.
    pub(super) files: files::Inputs,
    pub(super) flavor: Flavor,
    pub(super) arrived: Instant,
    /// Whether `dispatch` has tried before to start it, and could not.
    pub(super) waited: bool,
    /// How many sandboxes have died under it before its code started.
    pub(super) lost: u32,
}

impl Pending {
    /// Name of the session that it runs in; `None` for a fresh sandbox.
    pub(super) fn session(&self) -> Option<&str> {
        match &self.run.place {
            Place::Fresh => None,
            Place::Session { session, .. } => Some(session),
        }
    }

    /// The message that gives the program to a job's process: a [`RunMessage`], and then the JSON texts of the inputs'
    /// values and of each tool's two schemas (nothing for one that it lacks). A NUL, which no JSON has, stands before
    /// the texts and after each of them. So the process need not read schemas that the code never asks for, and a large
    /// input is not escaped on its way. `file` is the program's file, and `linger` is as in [`RunMessage`].
    pub(super) fn message(&self, file: &files::ProgramFile, linger: bool) -> serde_json::Result<Vec<u8>> {
        let run = &self.run;
        let mut message = serde_json::to_vec(&self.head(file, linger))?;
        let schemas = || run.tools.iter().flat_map(|tool| [&tool.input_schema, &tool.output_schema]);
        if run.inputs.is_empty() && schemas().all(Option::is_none) {
            return Ok(message);
        }
        message.push(0);
        for text in run.inputs.values().map(Some).chain(schemas().map(Option::as_ref)) {
            message.extend_from_slice(text.map_or("", |text| text.get()).as_bytes());
            message.push(0);
        }
        Ok(message)
    }

    fn head<'a>(&'a self, file: &'a files::ProgramFile, linger: bool) -> RunMessage<'a> {
        RunMessage {
            op: "run",
            code: &self.run.code,
            name: &file.name,
            written: file.written,
            argv: &self.run.argv,
            env: &self.run.env,
            inputs: self.run.inputs.keys().map(String::as_str).collect(),
            tools: self.run.tools.iter().map(ToolHead::from).collect(),
            sync_tools: self.run.sync_tools,
            session: self.session().is_some(),
            linger,
            follow: self.run.follow,
            soft_ms: None,
        }
    }
}

/// The message that gives a program to a job's process.
#[derive(Serialize)]
struct RunMessage<'a> {
    op: &'static str,
    code: &'a str,
    /// Name of the program's file in the directory where programs start.
    name: &'a str,
    /// Whether the file is there.
    written: bool,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    argv: &'a [String],
    env: &'a BTreeMap<String, String>,
    /// Names of the inputs, in the order of their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inputs: Vec<&'a str>,
    tools: Vec<ToolHead<'a>>,
    /// Whether calling a tool gives its result.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    sync_tools: bool,
    session: bool,
    /// Whether the process waits to be killed when it is done, instead of exiting.
    linger: bool,
    /// Whether it writes each line of output at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    follow: bool,
    soft_ms: Option<u64>,
}

/// What the process is told of a tool before the code asks.
#[derive(Serialize)]
struct ToolHead<'a> {
    name: &'a str,
    alias: &'a str,
    description: &'a str,
    parameters: &'a [Parameter],
    others: bool,
    raw: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hidden: bool,
}

impl<'a> From<&'a Tool> for ToolHead<'a> {
    fn from(tool: &'a Tool) -> Self {
        let Tool { name, alias, description, parameters, others, raw, hidden, .. } = tool;
        Self { name, alias, description, parameters, others: *others, raw: *raw, hidden: *hidden }
    }
}
