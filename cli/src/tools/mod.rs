//! Tools that are commands of this machine. A command gets arguments as JSON on standard input, and prints its result
//! as JSON.
//!
//! Tools come only from `--tool NAME=COMMAND`, and from the `[tools]` table of a file that the user names or has
//! trusted. Neither a program's text nor a file that only lies beside the program can define a tool: code from a model
//! must not choose what runs outside its sandbox.

mod command;
mod file;
mod trust;
mod written;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::value::RawValue;
use thermae_client::ToolHandler;
use thermae_schemas::{JobId, ToolFailure, ToolSpec, alias_clash, hides};
use tokio::sync::Semaphore;

use crate::failure::Failure;
use crate::style;
pub(crate) use command::Command;
pub(crate) use file::{Entry, ToolsFile};
use trust::Verdict;
pub(crate) use trust::{Trust, command as trust};
pub(crate) use written::Written;

/// Name of the tools file that is looked for beside a program.
pub(crate) const FILE: &str = "thermae.toml";

/// Number of commands that run at once. Further calls wait.
const AT_ONCE: usize = 32;

/// The tools of one command, by name.
#[derive(Debug)]
pub(crate) struct Tools {
    entries: BTreeMap<String, (ToolSpec, Command)>,
    slots: Semaphore,
}

impl Tools {
    /// Gathers the tools of the file `file`, or else of the trusted [`FILE`] in the folder `beside`, and those of the
    /// options `--tool`. An option replaces a tool of the file. Warns if there is a file in `beside` that isn't
    /// trusted.
    ///
    /// # Errors
    /// A file can't be read or used, an option is not `NAME=COMMAND`, or two names become the same in the code.
    pub(crate) fn gather(
        options: &[String],
        file: Option<&Path>,
        beside: Option<&Path>,
        trust: &Trust,
    ) -> Result<Self, Failure> {
        let mut entries = BTreeMap::new();
        let named = file.map(|path| Ok((path.to_owned(), trust::read(path)?))).transpose()?;
        let found = || beside.and_then(|dir| trusted(&dir.join(FILE), trust));
        if let Some((path, content)) = named.or_else(found) {
            for (name, entry) in ToolsFile::parse(&path, &content)?.tools {
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

    /// The tools as jobs declare them.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        self.entries.values().map(|(spec, _)| spec.clone()).collect()
    }

    /// Folders that programs of this machine are run from: the folders where tools run, the folders of files that their
    /// commands name, and the program's own folder, because its next run may have tools.
    pub(crate) fn folders(&self, beside: Option<&Path>) -> Vec<std::path::PathBuf> {
        let here = |dir: &Path| if dir.as_os_str().is_empty() { Path::new(".").to_owned() } else { dir.to_owned() };
        let of_tool = |command: &Command| {
            let words = command.words.iter().flat_map(|word| word.split_whitespace());
            let files = words.map(|word| command.dir.join(word)).filter(|path| path.is_file());
            let named: Vec<_> = files.filter_map(|path| path.parent().map(here)).collect();
            [vec![here(&command.dir)], named].concat()
        };
        self.entries.values().flat_map(|(_, command)| of_tool(command)).chain(beside.map(here)).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The handler for the client; `None` if there are no tools.
    pub(crate) fn handler(self: &Arc<Self>) -> Option<Arc<dyn ToolHandler>> {
        (!self.is_empty()).then(|| self.clone() as Arc<dyn ToolHandler>)
    }
}

/// The path and content of a tools file beside a program. `None` if there is no such file, or if the user hasn't
/// trusted this content. Warns in the second case.
fn trusted(path: &Path, trust: &Trust) -> Option<(std::path::PathBuf, Vec<u8>)> {
    // A broken link or a folder is not a tools file.
    if !path.is_file() {
        return None;
    }
    let content = trust::read(path).ok()?;
    let why = match trust.verdict(path, &content) {
        Verdict::Trusted => return Some((path.to_owned(), content)),
        Verdict::Changed => "has changed since you trusted it",
        Verdict::Unknown => "is not trusted",
    };
    let path = path.display();
    style::warn(
        &format!("{path} {why}, so its tools are not used"),
        &format!("read it, then run `thermae trust {path}` for all runs, or use --tools-file {path} for this run"),
    );
    None
}

/// Refuses two tools that have the same name in the code, and one that has a name of Python's own.
fn distinct<'a>(names: impl Iterator<Item = &'a String> + Clone) -> Result<(), Failure> {
    if let Some(clash) = alias_clash(names.clone().map(String::as_str)) {
        let (first, second, alias) = (clash.first, clash.second, clash.alias);
        return Err(Failure::usage(
            "bad_tool",
            format!("the tools {first:?} and {second:?} are both {alias} in the code"),
        )
        .help("rename one of them"));
    }
    match names.clone().find_map(|name| hides(name)) {
        Some(own) => {
            Err(Failure::usage("bad_tool", format!("a tool called {own} would hide Python's own {own} from the code"))
                .help("give the tool another name"))
        }
        None => Ok(()),
    }
}

#[async_trait]
impl ToolHandler for Tools {
    async fn call(&self, job: &JobId, tool: &str, arguments: Box<RawValue>) -> Result<Box<RawValue>, ToolFailure> {
        let (_, command) =
            self.entries.get(tool).ok_or_else(|| format!("there is no command for the tool {tool:?}"))?;
        let _slot = self.slots.acquire().await.map_err(|_| "the client is closing".to_owned())?;
        command.call(job, tool, &arguments).await
    }
}

#[cfg(test)]
mod tests;
