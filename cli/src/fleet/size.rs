//! The size of the embedded fleet for a command line: jobs may ask for everything that the machine has.

use std::path::{Path, PathBuf};

use thermae_fleet::{AnswerOptions, AuditOptions, EmbeddedOptions, TokenOptions};
use thermae_schemas::LimitRequest;
use thermae_service::units::{ByteSize, Millis};
use thermae_worker::LimitOptions;

use crate::args::{EmbeddedArgs, FleetArgs};
use crate::failure::Failure;

/// Options for an embedded fleet whose jobs may ask for the limits `asked`. `slots` is the number of jobs at once;
/// `None` is the fleet's default.
///
/// # Errors
/// An option for the embedded fleet is used with a real one, or a dataset can't be used.
pub(crate) fn embedded(
    fleet: &FleetArgs,
    args: &EmbeddedArgs,
    asked: &LimitRequest,
    slots: Option<u32>,
) -> Result<EmbeddedOptions, Failure> {
    let own = [
        args.disk.is_some(),
        !args.preload.is_empty(),
        args.store.is_some(),
        args.max_sessions.is_some(),
        args.session_min_idle.is_some(),
        args.answers_run_memory.is_some(),
        args.answers_memory.is_some(),
        args.answers_disk.is_some(),
        args.answers_dir.is_some(),
        args.audit.is_some(),
        args.token_keys.is_some(),
    ];
    if fleet.is_remote() && (!args.data.is_empty() || own.contains(&true)) {
        let why = "--data, --disk, --preload, --store, --max-sessions, --session-min-idle, --answers-*, --audit and \
                   --token-keys are \
                   the embedded fleet's options, but --amqp names another fleet";
        return Err(Failure::usage("usage", why).help(
            "set pools.<name>.datasets, disk, preload, max_sessions and session_min_idle, artifacts.store, answers, \
             audit.file and tokens.keys in the configuration of that fleet's workers",
        ));
    }
    let default = EmbeddedOptions::default();
    Ok(EmbeddedOptions {
        python: fleet.python(),
        slots,
        limits: limits(asked, memory_of_machine()),
        disk: args.disk.unwrap_or(default.disk),
        max_sessions: args.max_sessions.unwrap_or(default.max_sessions),
        session_min_idle: args.session_min_idle.unwrap_or(default.session_min_idle),
        preload: if args.preload.is_empty() { default.preload } else { args.preload.clone() },
        store: args.store.as_deref().map(store).transpose()?,
        answers: AnswerOptions {
            run_memory: args.answers_run_memory.unwrap_or(default.answers.run_memory),
            memory: args.answers_memory.unwrap_or(default.answers.memory),
            disk: args.answers_disk.unwrap_or(default.answers.disk),
            dir: args.answers_dir.clone().unwrap_or(default.answers.dir),
            ..default.answers
        },
        audit: AuditOptions { file: args.audit.clone(), redact: args.audit_redact.clone(), ..default.audit },
        tokens: TokenOptions {
            keys: args.token_keys.clone(),
            revoked: args.token_revoked.clone(),
            skew: args.token_skew.unwrap_or(default.tokens.skew),
        },
        datasets: args.data.iter().map(|option| dataset(option)).collect::<Result<_, _>>()?,
        ..default
    })
}

/// Options for an embedded fleet whose jobs get these limits without asking, and may ask for as much.
///
/// # Errors
/// As for [`embedded`].
pub(crate) fn serving(
    fleet: &FleetArgs,
    args: &EmbeddedArgs,
    given: &LimitRequest,
    slots: Option<u32>,
) -> Result<EmbeddedOptions, Failure> {
    if fleet.is_remote() && (slots.is_some() || *given != LimitRequest::default()) {
        let why = "--slots and limits are options of the embedded fleet, but --amqp names another fleet";
        return Err(Failure::usage("usage", why)
            .help("set pools.<name>.slots and pools.<name>.limits in the configuration of its workers"));
    }
    let mut options = embedded(fleet, args, given, slots)?;
    let LimitOptions { default, ceiling, .. } = &mut options.limits;
    let time = |at: &mut Millis, ms: Option<u64>| *at = ms.map_or(*at, Millis::from_millis);
    time(&mut default.wall, given.wall_ms);
    time(&mut default.cpu, given.cpu_ms);
    time(&mut default.tool_wait, given.tool_ms);
    time(&mut default.pause, given.pause_ms);
    default.memory = given.memory_bytes.map_or(default.memory, |bytes| ByteSize(bytes).min(ceiling.memory));
    default.pids = given.pids.map_or(default.pids, |pids| pids.min(ceiling.pids));
    default.output = given.output_bytes.map_or(default.output, |bytes| ByteSize(bytes).min(ceiling.output));
    Ok(options)
}

/// Limits whose ceilings are at least `asked`. Memory is limited to what the machine has.
fn limits(asked: &LimitRequest, machine: u64) -> LimitOptions {
    let mut limits = LimitOptions::default();
    let ceiling = &mut limits.ceiling;
    let time = |at: &mut Millis, ms: Option<u64>| *at = (*at).max(Millis::from_millis(ms.unwrap_or(0)));
    time(&mut ceiling.wall, asked.wall_ms);
    time(&mut ceiling.cpu, asked.cpu_ms);
    time(&mut ceiling.tool_wait, asked.tool_ms);
    time(&mut ceiling.pause, asked.pause_ms);
    ceiling.memory = ceiling.memory.max(ByteSize(asked.memory_bytes.unwrap_or(0).min(machine)));
    ceiling.pids = ceiling.pids.max(asked.pids.unwrap_or(0).min(MOST_PIDS));
    limits
}

/// Highest ceiling of processes. No job on one machine needs more.
const MOST_PIDS: u32 = 4096;

/// Memory of this machine, in bytes.
fn memory_of_machine() -> u64 {
    let info = rustix::system::sysinfo();
    u64::from(info.mem_unit) * info.totalram
}

/// The folder of a `--store` option.
fn store(folder: &Path) -> Result<PathBuf, Failure> {
    let bad = |error| Failure::usage("usage", format!("--store {}: {error}", folder.display()));
    std::path::absolute(folder).map_err(bad)
}

/// Parses a `--data` option of the form `NAME=PATH`. The path must exist.
fn dataset(option: &str) -> Result<(String, PathBuf), Failure> {
    let bad = |why: String| {
        Failure::usage("usage", format!("--data {option}: {why}"))
            .help("for example --data sales=./sales, which the code reads at /data/sales")
    };
    let (name, path) = option.split_once('=').ok_or_else(|| bad("it is not NAME=PATH".to_owned()))?;
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if !plain || name.starts_with('.') || !(1..=64).contains(&name.len()) {
        return Err(bad(
            "a name has 1 to 64 letters, digits, \"-\", \"_\" or \".\", and does not begin with \".\"".to_owned()
        ));
    }
    let path = std::fs::canonicalize(path).map_err(|error| bad(format!("can't read {path}: {error}")))?;
    if path.to_str().is_none() {
        return Err(bad("its path is not UTF-8".to_owned()));
    }
    Ok((name.to_owned(), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_rise_to_what_is_asked_and_what_the_machine_has() {
        let asked = LimitRequest {
            memory_bytes: Some(1 << 30),
            wall_ms: Some(3_600_000),
            pids: Some(200),
            ..LimitRequest::default()
        };
        let limits = limits(&asked, 8 << 30);
        assert_eq!((limits.ceiling.memory, limits.ceiling.pids), (ByteSize(1 << 30), 200));
        assert_eq!(limits.ceiling.wall, Millis::from_secs(3600));
        assert_eq!(
            limits.default.memory,
            LimitOptions::default().default.memory,
            "jobs that ask for nothing get no more"
        );
        let too_much = LimitRequest { memory_bytes: Some(1 << 40), ..LimitRequest::default() };
        assert_eq!(super::limits(&too_much, 8 << 30).ceiling.memory, ByteSize(8 << 30));
        assert_eq!(super::limits(&LimitRequest::default(), 8 << 30).ceiling, LimitOptions::default().ceiling);
        assert!(memory_of_machine() > 64 << 20);
    }

    #[test]
    fn what_is_served_has_the_limits_of_the_command_line() {
        use clap::Parser;
        let options = |more: &[&str]| {
            let line = ["thermae", "serve"].into_iter().chain(more.iter().copied());
            let crate::args::Command::Serve(args) = crate::args::Cli::try_parse_from(line).unwrap().command else {
                panic!("not serve")
            };
            serving(&args.fleet, &args.embedded, &crate::run::limits(&args.limits).unwrap(), args.slots)
        };
        let all = [
            "--memory",
            "1GiB",
            "--wall",
            "10m",
            "--cpu",
            "9m",
            "--pids",
            "100",
            "--output",
            "2MiB",
            "--tool-wait",
            "1h",
            "--pause",
            "2h",
            "--disk",
            "1GiB",
            "--preload",
            "polars,duckdb",
            "--preload",
            "pyarrow",
            "--slots",
            "3",
            "--answers-run-memory",
            "1MiB",
            "--answers-memory",
            "2MiB",
            "--answers-disk",
            "3MiB",
            "--answers-dir",
            "/srv/answers",
        ];
        let served = options(&all).unwrap();
        let (default, ceiling) = (&served.limits.default, &served.limits.ceiling);
        assert_eq!(
            (default.memory, default.wall, default.cpu),
            (ByteSize::gib(1), Millis::from_secs(600), Millis::from_secs(540))
        );
        assert_eq!((default.pids, default.output), (100, ByteSize::mib(2)));
        assert_eq!((default.tool_wait, default.pause), (Millis::from_secs(3600), Millis::from_secs(7200)));
        assert!(ceiling.memory >= default.memory && ceiling.wall >= default.wall && ceiling.pause >= default.pause);
        assert_eq!((served.disk, served.slots, served.preload.len()), (ByteSize::gib(1), Some(3), 3));
        let answers = &served.answers;
        assert_eq!((answers.run_memory, answers.memory), (ByteSize::mib(1), ByteSize::mib(2)));
        assert_eq!((answers.disk, answers.dir.as_path()), (ByteSize::mib(3), Path::new("/srv/answers")));
        let bare = options(&[]).unwrap();
        let (limits, usual) = (&bare.limits, LimitOptions::default());
        assert_eq!((&limits.default, &limits.ceiling), (&usual.default, &usual.ceiling));
        assert_eq!(bare.preload, EmbeddedOptions::default().preload);
        for bad in [["--memory", "1GiB"], ["--slots", "3"], ["--preload", "polars"], ["--answers-disk", "1MiB"]] {
            let line = [&bad[..], &["--amqp", "amqp://a@localhost"]].concat();
            assert_eq!(options(&line).unwrap_err().code, "usage", "{bad:?}");
        }
    }

    #[test]
    fn a_dataset_has_a_name_and_a_place() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        assert_eq!(dataset(&format!("sales={at}")).unwrap().0, "sales");
        for bad in [format!("={at}"), format!(".x={at}"), format!("a/b={at}"), "sales".to_owned(), format!("a={at}/no")]
        {
            assert_eq!(dataset(&bad).unwrap_err().code, "usage", "{bad}");
        }
    }
}
