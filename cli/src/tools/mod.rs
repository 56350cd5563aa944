//! Tools that are commands of this machine: arguments as JSON on standard input, result as JSON on standard output.
//!
//! They come from `--tool NAME=COMMAND` and from `[tools]` of a file that the user names or has trusted: all the user's own words. A
//! program's text never names one, nor does a file that merely lies beside it: code from a model must not choose what runs outside its
//! sandbox.

mod command;
mod file;
mod trust;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use thermae_client::ToolHandler;
use thermae_schemas::{JobId, ToolSpec, alias, alias_clash};
use tokio::sync::Semaphore;

use crate::failure::Failure;
use crate::style;
pub(crate) use command::Command;
pub(crate) use file::{Entry, ToolsFile};
use trust::Verdict;
pub(crate) use trust::{Trust, command as trust};

/// Python's own functions that a tool would hide from the code, of those that programs call by name.
const BUILTINS: &[&str] = &[
    "abs",
    "all",
    "any",
    "bool",
    "bytes",
    "callable",
    "chr",
    "compile",
    "dict",
    "dir",
    "display",
    "divmod",
    "enumerate",
    "eval",
    "exec",
    "filter",
    "float",
    "format",
    "frozenset",
    "getattr",
    "globals",
    "hasattr",
    "hash",
    "hex",
    "id",
    "input",
    "int",
    "isinstance",
    "issubclass",
    "iter",
    "len",
    "list",
    "locals",
    "map",
    "max",
    "min",
    "next",
    "object",
    "open",
    "ord",
    "pow",
    "print",
    "property",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "setattr",
    "slice",
    "sorted",
    "str",
    "sum",
    "super",
    "tuple",
    "type",
    "vars",
    "zip",
    "ToolError",
    "__import__",
    "__build_class__",
];

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
    /// The tools of the file (one that is named, or else [`FILE`] in the directory where `trust` knows it) and of the command line,
    /// which wins. What lies in the directory and is not trusted is left alone, and that is said.
    ///
    /// # Errors
    /// A file that can't be read or used; an option that is not `NAME=COMMAND`; two names that become one in the code.
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

    /// What jobs declare.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        self.entries.values().map(|(spec, _)| spec.clone()).collect()
    }

    /// Folders that programs of this machine are run from: where the tools' commands run, where files lie that they name, and the
    /// program's own, whose next run may have tools.
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

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// As the client wants it; `None` where there are no tools.
    pub(crate) fn handler(self: &Arc<Self>) -> Option<Arc<dyn ToolHandler>> {
        (!self.is_empty()).then(|| self.clone() as Arc<dyn ToolHandler>)
    }
}

/// A file that lies beside a program, if the user has trusted it as it is; a note where not.
fn trusted(path: &Path, trust: &Trust) -> Option<(std::path::PathBuf, Vec<u8>)> {
    // Neither a broken link nor a folder is a tools file.
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
        &format!("read it; then `thermae trust {path}` for all runs, or --tools-file {path} for this one"),
    );
    None
}

/// Two names that become one identifier would hide each other; one that is Python's would hide Python's.
fn distinct<'a>(names: impl Iterator<Item = &'a String> + Clone) -> Result<(), Failure> {
    if let Some(clash) = alias_clash(names.clone().map(String::as_str)) {
        let (first, second, alias) = (clash.first, clash.second, clash.alias);
        return Err(Failure::usage(
            "bad_tool",
            format!("the tools {first:?} and {second:?} are both {alias} in the code"),
        )
        .help("rename one of them"));
    }
    for name in names.filter(|name| BUILTINS.contains(&alias(name).as_str())) {
        style::warn(&format!("the tool {name:?} hides Python's own {}", alias(name)), "give the tool another name");
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
