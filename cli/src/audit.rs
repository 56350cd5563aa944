//! `thermae audit`: checks that nobody has changed an audit log.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};

use thermae_worker::audit::{Broken, Verified, verify};

use crate::args::AuditArgs;
use crate::failure::{Exit, Failure, chain};
use crate::style;

/// Checks the files as one log.
///
/// # Errors
/// A file can't be read.
pub(crate) fn audit(args: &AuditArgs) -> Result<Exit, Failure> {
    let mut all: Box<dyn BufRead> = Box::new(std::io::empty());
    for path in &args.files {
        let unreadable = |error| Failure::usage("file_not_read", format!("can't read {}: {error}", path.display()));
        let file = File::open(path).map_err(unreadable)?;
        all = Box::new(all.chain(BufReader::new(file)));
    }
    match verify(all) {
        Ok(verified) => tell(args, &verified),
        Err(Broken::Read(error)) => Err(Failure::usage("file_not_read", format!("can't read the log: {error}"))),
        Err(broken) => broken_at(args, &chain(&broken)),
    }
}

fn tell(args: &AuditArgs, verified: &Verified) -> Result<Exit, Failure> {
    let Verified { lines, torn, first, last, tokens } = verified;
    if let Some(expected) = args.after.as_ref().filter(|expected| !first.eq_ignore_ascii_case(expected)) {
        return broken_at(args, &format!("the first line follows the digest {first}, not {expected}"));
    }
    if let Some(expected) = args.last.as_ref().filter(|expected| !last.eq_ignore_ascii_case(expected)) {
        return broken_at(args, &format!("the digest of the last line is {last}, not {expected}"));
    }
    if args.json {
        let told = serde_json::json!({
            "unbroken": true, "lines": lines, "torn": torn, "first": first, "last": last, "tokens": tokens,
        });
        style::print(format!("{told}\n").as_bytes());
        return Ok(Exit::Success);
    }
    style::print(format!("{lines} lines, unbroken\nfollows  {first}\nlast     {last}\n").as_bytes());
    for (token, lines) in tokens {
        style::print(format!("token    {token}  lines: {lines}\n").as_bytes());
    }
    for line in torn {
        style::note(&format!("line {line} was torn: the machine failed while it was written"));
    }
    Ok(Exit::Success)
}

fn broken_at(args: &AuditArgs, why: &str) -> Result<Exit, Failure> {
    if args.json {
        style::print(format!("{}\n", serde_json::json!({ "unbroken": false, "why": why })).as_bytes());
    } else {
        style::print(format!("broken: {why}\n").as_bytes());
    }
    Ok(Exit::Code)
}
