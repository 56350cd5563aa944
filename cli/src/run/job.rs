//! Makes a job from the command line.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use thermae_schemas as schemas;
use thermae_schemas::{Job, Language, LimitRequest, PoolName, SessionName, SessionRequest, TokenText};

use thermae_service::units::ByteSize;

use crate::args::{Class, IfGone, LimitArgs, RunArgs, When};
use crate::failure::Failure;
use crate::tools::Tools;

/// Makes the job that the command line describes. Reads the program and its standard input.
pub(super) fn job(args: &RunArgs, tools: &Tools) -> Result<Job, Failure> {
    let options = &args.job;
    let bad = |error: schemas::NameError| Failure::usage("usage", error);
    let ours =
        [&args.file, &options.stdin, &options.capability_token].map(|path| path.as_deref() == Some(Path::new("-")));
    if ours.into_iter().filter(|ours| *ours).count() > 1 {
        let why = "only one of the program, its standard input and its token can come from the command's own standard \
                   input";
        return Err(Failure::usage("usage", why));
    }
    let mut job = match &args.file {
        Some(file) => Job { language: language(args)?, ..Job::python(text(file, "program")?) },
        None => Job { argv: args.command.clone(), ..Job::bash("") },
    };
    job.stdin = options.stdin.as_deref().map(|path| text(path, "standard input")).transpose()?;
    job.inputs = super::inputs::read(&options.inputs)?;
    job.files = super::files::read(&options.files)?;
    job.env = environment(&options.env)?;
    job.limits = limits(&args.limits)?;
    job.tools = tools.specs();
    job.sync_tools = args.tools.sync_tools;
    job.capabilities = options.capabilities.as_deref().map(super::capabilities::read).transpose()?;
    let token = options.capability_token.as_deref().map(|file| text(file, "token")).transpose()?;
    job.token = token.map(|text| TokenText::new(text.trim_end()));
    job.max_attempts = options.max_attempts;
    job.start_within_ms = options.start_within.map(|within| within.as_millis());
    job.idempotency_key.clone_from(&options.idempotency_key);
    job.class = match options.class {
        Class::High => schemas::Class::High,
        Class::Normal => schemas::Class::Normal,
        Class::Low => schemas::Class::Low,
    };
    if let Some(pool) = &options.pool {
        job.pool = PoolName::new(pool.as_str()).map_err(bad)?;
    }
    if let Some(session) = &options.session {
        let if_gone = match options.if_gone {
            IfGone::Fail => schemas::IfGone::Fail,
            IfGone::New => schemas::IfGone::New,
        };
        let id = SessionName::new(session.as_str()).map_err(bad)?;
        job.session = Some(SessionRequest {
            if_gone,
            reset: options.reset_session,
            close: options.close_session,
            checkpoint: options.checkpoint.map(|When::AfterJob| schemas::CheckpointWhen::AfterJob),
            checkpoint_ttl_ms: options.checkpoint_ttl.map(|ttl| ttl.as_millis()),
            restore: options.restore.as_deref().map(SessionName::new).transpose().map_err(bad)?,
            ..SessionRequest::new(id)
        });
    }
    Ok(job)
}

/// Least memory that `--memory` accepts. With less, no program starts.
const LEAST_MEMORY: ByteSize = ByteSize::mib(8);

/// The limits on the command line, as a job asks for them.
///
/// # Errors
/// A limit is too low for any program.
pub(crate) fn limits(args: &LimitArgs) -> Result<LimitRequest, Failure> {
    if let Some(memory) = args.memory.filter(|memory| *memory < LEAST_MEMORY) {
        return Err(Failure::usage(
            "usage",
            format!("--memory {memory}: no program runs with less than {LEAST_MEMORY}"),
        )
        .help("a size has a unit: --memory 256MiB"));
    }
    Ok(LimitRequest {
        wall_ms: args.wall.map(|n| n.as_millis()),
        cpu_ms: args.cpu.map(|n| n.as_millis()),
        memory_bytes: args.memory.map(|n| n.as_u64()),
        pids: args.pids,
        output_bytes: args.output.map(|n| n.as_u64()),
        tool_ms: args.tool_wait.map(|n| n.as_millis()),
        pause_ms: args.pause.map(|n| n.as_millis()),
    })
}

/// A file's text. `-` is this command's own standard input.
pub(super) fn text(path: &Path, what: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        Failure::usage("file_not_read", format!("can't read the {what} {}: {error}", path.display()))
    })?;
    String::from_utf8(bytes).map_err(|_| {
        Failure::usage("file_not_read", format!("the {what} {} is not UTF-8 text", path.display()))
            .help("save it as UTF-8")
    })
}

/// The language of the program that these arguments name.
///
/// # Errors
/// The name can't be a language's.
pub(crate) fn language(args: &RunArgs) -> Result<Language, Failure> {
    match &args.file {
        Some(file) => named(args.job.language.as_deref(), file),
        None => Ok(Language::bash()),
    }
}

fn named(name: Option<&str>, file: &Path) -> Result<Language, Failure> {
    let by_name = |name: &str| match name {
        "python" | "py" => Some(Language::python()),
        "bash" | "sh" => Some(Language::bash()),
        "javascript" | "js" | "mjs" => Language::new("javascript").ok(),
        _ => None,
    };
    match name {
        Some(name) => by_name(name).map_or_else(|| Language::new(name), Ok).map_err(|e| {
            Failure::usage("unsupported_language", e.to_string()).help("a pool runs python, bash or both")
        }),
        None => Ok(file.extension().and_then(|e| e.to_str()).and_then(by_name).unwrap_or_default()),
    }
}

fn environment(options: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut variables = BTreeMap::new();
    for option in options {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => match std::env::var(option) {
                Ok(value) => (option.as_str(), value),
                Err(_) => {
                    return Err(Failure::usage("usage", format!("--env {option}: this variable is not set here"))
                        .help("give its value: --env NAME=VALUE"));
                }
            },
        };
        if name.is_empty() || name.contains('\0') || value.contains('\0') {
            return Err(Failure::usage("usage", format!("--env {option:?} is not NAME=VALUE")));
        }
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::tools::Trust;

    fn parse(more: &[&str]) -> Result<Job, Failure> {
        let mut file = tempfile::Builder::new().suffix(".py").tempfile().unwrap();
        file.write_all(b"print(1)").unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        let line = ["thermae", "run", &path].into_iter().chain(more.iter().copied());
        let Command::Run(args) = Cli::try_parse_from(line).unwrap().command else { panic!("not run") };
        job(&args, &Tools::gather(&args.tools.tools, None, None, &Trust::of_user())?)
    }

    #[test]
    fn every_option_arrives_in_the_job() {
        let job = parse(&[
            "--wall",
            "1.5s",
            "--memory",
            "64MiB",
            "--pids",
            "8",
            "--env",
            "A=b=c",
            "--session",
            "s",
            "--if-gone",
            "new",
            "--max-attempts",
            "3",
            "--pool",
            "big",
            "--class",
            "low",
            "--start-within",
            "1m",
            "--tool",
            "t=cat",
            "--idempotency-key",
            "k",
            "--output",
            "1KiB",
            "--tool-wait",
            "2s",
            "--cpu",
            "1s",
        ])
        .unwrap();
        let mut value = serde_json::to_value(&job).unwrap();
        value["id"] = "id".into();
        assert_eq!(
            value,
            serde_json::json!({
                "protocol": 1, "id": "id", "language": "python", "code": "print(1)", "pool": "big", "class": "low",
                "session": { "id": "s", "if_gone": "new" },
                "limits": { "wall_ms": 1500, "cpu_ms": 1000, "memory_bytes": 67108864, "pids": 8, "output_bytes": 1024, "tool_ms": 2000 },
                "tools": [{ "name": "t" }], "max_attempts": 3, "start_within_ms": 60000, "env": { "A": "b=c" },
                "idempotency_key": "k",
            })
        );
    }

    #[test]
    fn the_language_is_that_of_the_option_or_of_the_file() {
        assert_eq!(named(None, Path::new("a.py")).unwrap(), Language::python());
        assert_eq!(named(None, Path::new("-")).unwrap(), Language::python());
        assert_eq!(named(None, Path::new("a.js")).unwrap(), "javascript".parse().unwrap());
        assert_eq!(named(Some("sh"), Path::new("a.py")).unwrap(), Language::bash());
        assert_eq!(named(None, Path::new("a.sh")).unwrap(), Language::bash());
        assert_eq!(named(Some("no name"), Path::new("a.py")).unwrap_err().code, "unsupported_language");
    }

    #[test]
    fn capabilities_are_read_from_their_file() {
        let file = |text: &str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        let good = file(r#"[{"pattern": "t", "max_calls": 3}]"#);
        let job = parse(&["--tool", "t=cat", "--capabilities", good.path().to_str().unwrap()]).unwrap();
        assert_eq!(job.capabilities.unwrap().capabilities()[0].max_calls().unwrap().get(), 3);
        assert!(parse(&[]).unwrap().capabilities.is_none());
        let empty = file("[]");
        assert!(parse(&["--capabilities", empty.path().to_str().unwrap()]).unwrap().capabilities.is_some());
        for (text, why) in [("", "capabilities: can't be read"), ("[{}]", "capabilities[0]: lacks \"pattern\"")] {
            let bad = file(text);
            let failure = parse(&["--capabilities", bad.path().to_str().unwrap()]).unwrap_err();
            assert!(failure.code == "bad_capability" && failure.message.contains(why), "{}", failure.message);
        }
        assert_eq!(parse(&["--capabilities", "/nonexistent"]).unwrap_err().code, "file_not_read");
    }

    #[test]
    fn a_token_is_read_from_its_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"c2VjcmV0\n").unwrap();
        let job = parse(&["--capability-token", file.path().to_str().unwrap()]).unwrap();
        assert_eq!(job.token.as_ref().unwrap().as_str(), "c2VjcmV0");
        assert!(parse(&[]).unwrap().token.is_none());
        assert_eq!(parse(&["--capability-token", "/nonexistent"]).unwrap_err().code, "file_not_read");
        // An empty file is no way to leave the token out.
        assert!(parse(&["--capability-token", "/dev/null"]).unwrap().token.is_some());
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(parse(&["--stdin", "-", "--capability-token", "-"]).unwrap_err().code, "usage");
        assert!(parse(&["--env", "=x"]).is_err());
        assert!(parse(&["--memory", "10B"]).unwrap_err().message.contains("8MiB"));
        assert!(parse(&["--env", "THERMAE_NO_SUCH_VARIABLE"]).is_err());
        assert!(parse(&["--session", "a b"]).is_err());
        assert!(parse(&["--pool", "a.b"]).is_err());
        assert!(parse(&["--stdin", "/nonexistent"]).is_err());
    }
}
