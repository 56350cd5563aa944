//! How bash is started.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::languages::ZygoteContext;
use crate::languages::native::Program;
use crate::sys;

/// What bash has in its environment in addition to what every program has.
const BASH: [&str; 1] = ["SHELL=/bin/bash"];

/// Everything that `execve` needs.
pub(super) struct Command {
    path: CString,
    args: Vec<CString>,
    env: Vec<CString>,
    /// A file that bash reads; it stays open over the `execve`.
    _script: Option<OwnedFd>,
}

impl Command {
    /// A bash with these arguments and environment variables. `fixed` is the environment of every program.
    ///
    /// # Errors
    /// If one of them has a NUL.
    pub(super) fn new<'a>(
        bash: &'a str,
        args: impl IntoIterator<Item = &'a str>,
        env: &BTreeMap<String, String>,
        fixed: &[String],
    ) -> io::Result<Self> {
        let text = |s: &str| CString::new(s).map_err(|_| io::Error::other("a NUL in the program or its environment"));
        let fixed = fixed.iter().map(String::as_str).chain(BASH);
        let fixed = fixed.filter(|pair| pair.split_once('=').is_none_or(|(name, _)| !env.contains_key(name)));
        let pairs = env.iter().map(|(name, value)| text(&format!("{name}={value}")));
        Ok(Self {
            path: text(bash)?,
            args: std::iter::once(bash).chain(args).map(text).collect::<io::Result<_>>()?,
            env: fixed.map(text).chain(pairs).collect::<io::Result<_>>()?,
            _script: None,
        })
    }

    /// Replaces this process by that bash. Returns only if that fails.
    pub(super) fn exec(&self) -> io::Error {
        sys::exec(&self.path, &self.args, &self.env)
    }
}

/// The bash that runs a fresh program.
///
/// # Errors
/// If its environment has a NUL, or a system call fails.
pub(super) fn fresh(program: &Program, bash: &str, context: &ZygoteContext) -> io::Result<Command> {
    let Program { name, argv, env, .. } = program;
    let new = |args: &[&str]| {
        let args = args.iter().copied().chain(argv.iter().map(String::as_str));
        Command::new(bash, args, env, &context.environment)
    };
    if !argv.is_empty() {
        return new(&["-c", "\"$@\"", name]);
    }
    if program.written {
        return new(&[name]);
    }
    let mut file = std::fs::File::from(rustix::fs::memfd_create(&**name, rustix::fs::MemfdFlags::empty())?);
    file.write_all(program.code.as_bytes())?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(Command { _script: Some(file.into()), ..new(&[&path])? })
}

/// Lines of bash that give the shell a program's path, parameters and environment variables. Bash has no variables whose
/// names are no identifiers, so these are left out.
pub(super) fn assignments(path: &str, args: &[String], env: &BTreeMap<String, String>) -> String {
    let identifier = |name: &str| {
        !name.starts_with(|c: char| c.is_ascii_digit()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let mut lines = format!("BASH_ARGV0={}\nset --", quoted(path));
    for arg in args {
        let _ = write!(lines, " {}", quoted(arg));
    }
    lines.push('\n');
    for (name, value) in env.iter().filter(|(name, _)| !name.is_empty() && identifier(name)) {
        let _ = writeln!(lines, "export {name}={}", quoted(value));
    }
    lines
}

/// Quotes a text, so that bash reads it as one word.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_odd_names_left_out() {
        let env =
            BTreeMap::from([("A".into(), "it's".into()), ("1B".into(), String::new()), ("C-D".into(), String::new())]);
        let lines = "BASH_ARGV0='/a b'\nset -- 'x y' '$z'\nexport A='it'\\''s'\n";
        assert_eq!(assignments("/a b", &["x y".into(), "$z".into()], &env), lines);
    }
}
