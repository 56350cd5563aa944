//! Commands: how the process becomes one.
//!
//! Until then, `/proc/self/exe` is the runner's own program, as it lies on the machine, and not in the sandbox's
//! read-only view. A command that names this link, or whose first line does (`#!`), would execute the runner, and could
//! then open that file. Where it belongs to the job's user ([`is_exposed`]), the job could change it. There, this
//! process first becomes a shell of the view, which then becomes the command.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io;

use rustix::fs::{Access, FileType, access, stat};

use super::failure::{because, on};
use crate::frames::{Command, Failure, Program};
use crate::sys;

/// Becomes the command. Returns only if that fails.
pub(super) fn exec(command: &Command, environment: &[String]) -> Failure {
    become_command(command, environment).unwrap_or_else(|failure| failure)
}

fn become_command(command: &Command, environment: &[String]) -> Result<Failure, Failure> {
    let shell = |line: &String| vec!["bash".to_owned(), "-c".to_owned(), line.clone()];
    let words = match &command.program {
        Program::Argv(words) => words.clone(),
        Program::Shell(line) => shell(line),
    };
    let Some(name) = words.first().filter(|name| !name.is_empty()) else {
        return Err(because("", libc::ENOENT, "a command needs a program"));
    };
    let text = |text: String| CString::new(text).map_err(|_| because(&**name, libc::EINVAL, "a NUL in the command"));
    let args = words.iter().cloned().map(text).collect::<Result<Vec<_>, _>>()?;
    let mut env: BTreeMap<&str, &str> = environment.iter().filter_map(|pair| pair.split_once('=')).collect();
    env.extend(command.env.iter().map(|(name, value)| (&**name, &**value)));
    let pairs = env.iter().map(|(name, value)| text(format!("{name}={value}"))).collect::<Result<Vec<_>, _>>()?;
    if let Some(cwd) = &command.cwd {
        rustix::process::chdir(&*cwd.0).map_err(on(cwd.clone()))?;
    }
    let (mut refused, exposed) = (None, is_exposed());
    for path in candidates(name, env.get("PATH").copied().unwrap_or_default()) {
        let path = text(path)?;
        let error = if exposed { exec_by_shell(&path, &args, &pairs) } else { sys::exec(&path, &args, &pairs) };
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            Some(libc::EACCES) => refused = Some(error),
            _ => return Ok(on(&**name)(error)),
        }
    }
    Ok(on(&**name)(refused.unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))))
}

/// Whether the file of this process's program is one that its user may change: an ordinary user's runner.
fn is_exposed() -> bool {
    let own = || {
        let owner = stat("/proc/self/exe")?.st_uid;
        Ok::<_, rustix::io::Errno>(owner == rustix::process::geteuid().as_raw())
    };
    own().unwrap_or(true) || access("/proc/self/exe", Access::WRITE_OK).is_ok()
}

/// Executes a program by way of a shell, whose file nobody can change. Returns only if that fails.
fn exec_by_shell(path: &CStr, args: &[CString], env: &[CString]) -> io::Error {
    let executable = || match FileType::from_raw_mode(stat(path)?.st_mode) {
        FileType::RegularFile => access(path, Access::EXEC_OK),
        _ => Err(rustix::io::Errno::ACCESS),
    };
    if let Err(e) = executable() {
        return e.into();
    }
    let words = [c"sh", c"-c", c"exec \"$0\" \"$@\"", path].into_iter().chain(args.iter().skip(1).map(|arg| &**arg));
    let error = sys::exec(&c"/bin/sh".to_owned(), &words.map(CStr::to_owned).collect::<Vec<_>>(), env);
    // Without the shell there is no safe way.
    if error.kind() == io::ErrorKind::NotFound { io::Error::from_raw_os_error(libc::EPERM) } else { error }
}

/// Where a program may be, in order: in the directories of `PATH`, if its name has no slash.
fn candidates(name: &str, path: &str) -> Vec<String> {
    if name.contains('/') {
        return vec![name.to_owned()];
    }
    let here = |dir: &str| if dir.is_empty() { "." } else { dir }.to_owned();
    path.split(':').map(|dir| here(dir) + "/" + name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_name_is_looked_up() {
        assert_eq!(candidates("ls", "/bin::/usr/bin"), ["/bin/ls", "./ls", "/usr/bin/ls"]);
        assert_eq!(candidates("./ls", "/bin"), ["./ls"]);
    }
}
