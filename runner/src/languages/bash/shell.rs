//! How bash is started.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;

use crate::languages::native::Program;
use crate::sys;

/// What `$0` is, and what bash's own messages begin with.
pub(super) const NAME: &str = "main.sh";

/// What bash has in its environment in addition to what every program has.
const BASH: [&str; 1] = ["SHELL=/bin/bash"];

/// The longest argument that `execve` accepts, in bytes, with its NUL (`MAX_ARG_STRLEN` in the kernel's
/// `include/uapi/linux/binfmts.h`).
const LONGEST_ARGUMENT: usize = 128 << 10;

/// Everything that `execve` needs.
pub(super) struct Command {
    path: CString,
    args: Vec<CString>,
    env: Vec<CString>,
    /// A program that is too long for an argument; it stays open over the `execve`.
    _long: Option<std::fs::File>,
}

impl Command {
    /// A bash that executes `script`, with these parameters and environment variables. `fixed` is the environment of
    /// every program.
    ///
    /// # Errors
    /// If one of them has a NUL.
    pub(super) fn new(
        bash: &str,
        script: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        fixed: &[String],
    ) -> io::Result<Self> {
        let text = |s: String| CString::new(s).map_err(|_| io::Error::other("a NUL in the program or its environment"));
        let fixed = fixed.iter().map(String::as_str).chain(BASH);
        let fixed = fixed.filter(|pair| pair.split_once('=').is_none_or(|(name, _)| !env.contains_key(name)));
        let pairs = env.iter().map(|(name, value)| format!("{name}={value}"));
        let words = [bash, "-c", script, NAME].into_iter().map(str::to_owned).chain(args.iter().cloned());
        Ok(Self {
            path: text(bash.to_owned())?,
            args: words.map(text).collect::<io::Result<_>>()?,
            env: fixed.map(str::to_owned).chain(pairs).map(text).collect::<io::Result<_>>()?,
            _long: None,
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
/// If the program has a NUL, or a system call fails.
pub(super) fn command(program: &Program, bash: &str, fixed: &[String]) -> io::Result<Command> {
    if program.script().len() < LONGEST_ARGUMENT {
        return Command::new(bash, program.script(), &program.argv, &program.env, fixed);
    }
    let mut file = std::fs::File::from(rustix::fs::memfd_create("program", rustix::fs::MemfdFlags::empty())?);
    file.write_all(program.code.as_bytes())?;
    let fd = file.as_raw_fd();
    // The descriptor is open for the `$(<…)`, and closed for what `eval` runs.
    let script = format!(r#"eval "$(</proc/self/fd/{fd})" {fd}<&-"#);
    Ok(Command { _long: Some(file), ..Command::new(bash, &script, &program.argv, &program.env, fixed)? })
}

/// Lines of bash that give the shell these parameters and environment variables. Bash has no variables whose names are
/// no identifiers, so these are left out.
pub(super) fn assignments(args: &[String], env: &BTreeMap<String, String>) -> String {
    let identifier = |name: &str| {
        !name.starts_with(|c: char| c.is_ascii_digit()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let mut lines = String::from("set --");
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
        assert_eq!(assignments(&["x y".into(), "$z".into()], &env), "set -- 'x y' '$z'\nexport A='it'\\''s'\n");
    }
}
