//! Tools that are commands of this machine: arguments as JSON on standard input, result as JSON on standard output.
//!
//! They come from `--tool NAME=COMMAND` and from `[tools]` of a `thermae.toml`, both the user's own words. A program's text
//! never names one: code from a model must not choose what runs outside its sandbox.

mod command;
mod file;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use thermae_client::ToolHandler;
use thermae_schemas::{JobId, ToolSpec};
use tokio::sync::Semaphore;

use crate::failure::Failure;
pub(crate) use command::Command;
pub(crate) use file::{Entry, ToolsFile};

/// Name of the file that is looked for beside a program.
pub(crate) const FILE: &str = "thermae.toml";

/// Commands that run at once; further calls wait.
const AT_ONCE: usize = 32;

/// The tools of one run.
#[derive(Debug)]
pub(crate) struct Tools {
    entries: BTreeMap<String, (ToolSpec, Command)>,
    slots: Semaphore,
}

impl Tools {
    /// The tools of the file (an explicit one, or [`FILE`] in the directory where that exists) and of the command line,
    /// which wins.
    ///
    /// # Errors
    /// A file that can't be read or used; an option that is not `NAME=COMMAND`; two names that become one in the code.
    pub(crate) fn gather(options: &[String], file: Option<&Path>, beside: Option<&Path>) -> Result<Self, Failure> {
        let mut entries = BTreeMap::new();
        let found = beside.map(|dir| dir.join(FILE)).filter(|path| file.is_none() && path.is_file());
        if let Some(path) = file.map(Path::to_owned).or(found) {
            for (name, entry) in ToolsFile::load(&path)?.tools {
                let dir = path.parent().unwrap_or(Path::new("."));
                entries.insert(name.clone(), entry.into_tool(name, dir)?);
            }
        }
        for option in options {
            let (name, command) = option
                .split_once('=')
                .filter(|(name, command)| !name.trim().is_empty() && !command.trim().is_empty())
                .ok_or_else(|| {
                    Failure::usage("bad_tool", format!("--tool {option:?} is not NAME=COMMAND"))
                        .help("for example --tool 'get_sales=python3 sales.py'")
                })?;
            entries.insert(name.to_owned(), Entry::shell(command).into_tool(name.to_owned(), Path::new("."))?);
        }
        distinct(entries.keys())?;
        Ok(Self { entries, slots: Semaphore::new(AT_ONCE) })
    }

    /// What jobs declare.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        self.entries.values().map(|(spec, _)| spec.clone()).collect()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// As the client wants it; `None` where there are no tools.
    pub(crate) fn handler(self: &Arc<Self>) -> Option<Arc<dyn ToolHandler>> {
        (!self.is_empty()).then(|| self.clone() as Arc<dyn ToolHandler>)
    }
}

/// Two names that become one identifier would hide each other.
fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), Failure> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for name in names {
        let alias: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if let Some(other) = seen.insert(alias.clone(), name) {
            return Err(Failure::usage(
                "bad_tool",
                format!("the tools {other:?} and {name:?} are both {alias} in the code"),
            )
            .help("rename one of them"));
        }
    }
    Ok(())
}

#[async_trait]
impl ToolHandler for Tools {
    async fn call(&self, job: &JobId, tool: &str, arguments: Value) -> Result<Value, String> {
        let (_, command) =
            self.entries.get(tool).ok_or_else(|| format!("there is no command for the tool {tool:?}"))?;
        let _slot = self.slots.acquire().await.map_err(|_| "the client is closing".to_owned())?;
        command.call(job, tool, &arguments).await
    }
}

#[cfg(test)]
mod tests;
