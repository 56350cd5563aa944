//! The tools file (`thermae.toml`), which defines tools that are commands. It is beside a program or elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_schemas::{JsonText, ToolSpec, objects};
use thermae_service::{config, units::Millis};

use super::{Command, Written};
use crate::failure::{Failure, chain};

/// The content of a tools file.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolsFile {
    /// The tools, by name.
    pub(crate) tools: BTreeMap<String, Entry>,
}

/// A tool that is a command.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Entry", deny_unknown_fields, expecting = "a table with `command`")]
pub(crate) struct Entry {
    /// The command: a list of words that is run as it is, or one string for the shell. It runs in the directory of the
    /// tools file.
    pub(crate) command: CommandLine,
    /// What the tool does, for the model that writes the code.
    #[serde(default)]
    pub(crate) description: String,
    /// JSON Schema of the arguments. Calls that do not match it never leave the worker.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Value>")]
    pub(crate) input_schema: Option<Written>,
    /// JSON Schema of the result. It documents the tool for the code; results are not checked.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Value>")]
    pub(crate) output_schema: Option<Written>,
    /// How often one job may call the tool. By default, there is no bound.
    #[serde(default)]
    pub(crate) max_calls: Option<u32>,
    /// How long one call may take. After that, the command is killed.
    #[serde(default = "default_timeout")]
    pub(crate) timeout: Millis,
    /// Environment variables for the command, in addition to those of `thermae` itself.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Whether the code gets results as strings, without parsing.
    #[serde(default)]
    pub(crate) raw: bool,
}

objects!(Entry);

/// A command, as the file has it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string for the shell, or a list of words")]
pub(crate) enum CommandLine {
    /// Words that are run as they are.
    Words(Vec<String>),
    /// A string for the shell.
    Shell(String),
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(&words.join(" ")),
            Self::Shell(text) => f.write_str(text),
        }
    }
}

fn default_timeout() -> Millis {
    Millis::from_secs(60)
}

impl ToolsFile {
    /// Reads the content of a tools file.
    ///
    /// # Errors
    /// It is not valid TOML, or has an unknown key or a value that does not fit.
    pub(crate) fn parse(path: &Path, content: &[u8]) -> Result<Self, Failure> {
        let bad = |why: String| {
            Failure::usage("bad_tools_file", why).help("docs/configuration.md lists what [tools] may hold")
        };
        let text = std::str::from_utf8(content)
            .map_err(|_| bad(format!("the tools file {} is not UTF-8 text", path.display())))?;
        config::parse(path, text, config::ENV_PREFIX)
            .map_err(|error| bad(format!("the tools file {} can't be used: {}", path.display(), chain(&error))))
    }
}

impl Entry {
    /// A tool that `--tool` defines: only a shell command.
    pub(super) fn shell(command: &str) -> Self {
        Self {
            command: CommandLine::Shell(command.to_owned()),
            description: String::new(),
            input_schema: None,
            output_schema: None,
            max_calls: None,
            timeout: default_timeout(),
            env: BTreeMap::new(),
            raw: false,
        }
    }

    pub(super) fn into_tool(self, name: String, dir: &Path) -> Result<(ToolSpec, Command), Failure> {
        let words = match self.command {
            CommandLine::Shell(text) => vec!["/bin/sh".to_owned(), "-c".to_owned(), text],
            CommandLine::Words(words) => words,
        };
        if words.first().is_none_or(String::is_empty) {
            return Err(Failure::usage("bad_tool", format!("the tool {name:?} has an empty command")));
        }
        let timeout = Duration::from(self.timeout);
        if timeout.is_zero() {
            return Err(Failure::usage("bad_tool", format!("the tool {name:?} has a timeout of zero")));
        }
        let dir = if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir.to_owned() };
        let schema = |key: &str, written: Option<Written>| {
            let text = written.map(|written| JsonText::try_from(&written)).transpose();
            text.map_err(|why| Failure::usage("bad_tool", format!("the {key} of the tool {name:?} {why}")))
        };
        let spec = ToolSpec {
            description: self.description,
            input_schema: schema("input_schema", self.input_schema)?,
            output_schema: schema("output_schema", self.output_schema)?,
            max_calls: self.max_calls,
            raw: self.raw,
            ..ToolSpec::new(&name)
        };
        Ok((spec, Command { words, dir, env: self.env, timeout }))
    }
}
