//! Embedded fleets in the process of a test. This program is also the runner of their sandboxes, so it has a `main` of
//! its own.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Trial};
use serde_json::json;
use thermae_fleet::{
    ByteSize, ClientError, EmbeddedOptions, Error, Fleet, Job, LimitOptions, Limits, Millis, Status, Tools, Unfit,
};

/// Longer than any test takes here, also on a busy machine. It is no bar: it ends a test that hangs.
const SOON: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    if let Some(status) = thermae_fleet::runner_entry() {
        return status;
    }
    let mut args = Arguments::from_args();
    // One test counts this process's children.
    args.test_threads = Some(1);
    let tests = vec![
        test("code_calls_a_closure", code_calls_a_closure),
        test("jobs_see_the_options", jobs_see_the_options),
        test("jobs_import_from_a_dataset", jobs_import_from_a_dataset),
        test("a_dropped_fleet_leaves_no_process", a_dropped_fleet_leaves_no_process),
        test("a_machine_or_option_that_does_not_fit_is_named", a_machine_or_option_that_does_not_fit_is_named),
    ];
    libtest_mimic::run(&args, tests).exit_code()
}

fn test(name: &str, run: impl AsyncFnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime
            .block_on(async { tokio::time::timeout(SOON, run()).await })?
            .map_err(|error| format!("{error:#}").into())
    })
}

fn one_slot() -> EmbeddedOptions {
    EmbeddedOptions { slots: Some(1), warm: Some(1), ..EmbeddedOptions::default() }
}

async fn code_calls_a_closure() -> Result<()> {
    #[derive(serde::Deserialize)]
    struct Asked {
        item: String,
    }
    let fleet = Fleet::embedded(one_slot()).await?;
    let tools = Tools::new().with("price", |asked: Asked| async move {
        if asked.item == "gold" { Err("not for sale".to_owned()) } else { Ok(asked.item.len()) }
    });
    let code = "
prices = [await price(item=item) for item in ('figs', 'olives')]
print(prices)
try:
    await price(item='gold')
except ToolError as error:
    print(error)
sum(prices)
";
    let mut job = Job::python(code);
    job.tools = tools.specs();
    let outcome = fleet.run(job, Some(Arc::new(tools))).await?;
    ensure!(outcome.status == Status::Succeeded, "{outcome:?}");
    ensure!(outcome.stdout.starts_with("[4, 6]\n") && outcome.stdout.contains("not for sale"), "{outcome:?}");
    ensure!(outcome.value.as_ref().is_some_and(|value| value["text/plain"].raw().get() == "\"10\""), "{outcome:?}");
    ensure!(outcome.usage.tool_calls == 3, "{outcome:?}");
    fleet.close().await;
    Ok(())
}

/// Modules of a dataset are imported like those of the interpreter, by the zygotes and by programs that jobs start.
/// None takes the place of the standard library's, but of the interpreter's own packages.
async fn jobs_import_from_a_dataset() -> Result<()> {
    let dir = tempfile::tempdir()?;
    for module in ["ours", "colorsys", "pip"] {
        std::fs::write(dir.path().join(format!("{module}.py")), "VALUE = 'ours'\n")?;
    }
    let options = EmbeddedOptions {
        preload: vec!["ours".to_owned()],
        preload_eager: true,
        datasets: [("packages".to_owned(), dir.path().to_owned())].into(),
        python_path: vec!["/data/packages".into()],
        ..one_slot()
    };
    let fleet = Fleet::embedded(options).await?;
    fleet.ready().await;
    let code = "
import sys
early = 'ours' in sys.modules
import colorsys, json, ours, pip, subprocess
program = 'import ours; print(ours.__file__)'
started = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True).stdout
print(json.dumps([early, ours.__file__, started, pip.VALUE, hasattr(colorsys, 'VALUE')]))
";
    let outcome = fleet.run(Job::python(code), None).await?;
    let seen: serde_json::Value =
        serde_json::from_str(&outcome.stdout).with_context(|| format!("not JSON: {outcome:?}"))?;
    let file = "/data/packages/ours.py";
    ensure!(seen == json!([true, file, format!("{file}\n"), "ours", false]), "{seen}");
    fleet.close().await;
    Ok(())
}

/// Options that jobs can see. A unit test of the options covers those that they can't see: slots, spares, quotas.
async fn jobs_see_the_options() -> Result<()> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("sales.csv"), "41\n")?;
    let defaults = Limits {
        wall: Millis::from_secs(20),
        cpu: Millis::from_secs(10),
        memory: ByteSize::mib(128),
        pids: 32,
        ..Limits::default()
    };
    let ceiling = Limits { memory: ByteSize::mib(512), ..Limits::default() };
    let options = EmbeddedOptions {
        // The module is small, and no program of this test but one imports it.
        preload: vec!["colorsys".to_owned()],
        preload_eager: true,
        limits: LimitOptions { default: defaults, ceiling, ..LimitOptions::default() },
        disk: ByteSize::mib(24),
        datasets: [("shop".to_owned(), dir.path().to_owned())].into(),
        ..one_slot()
    };
    let fleet = Fleet::embedded(options).await?;
    fleet.ready().await;
    let code = "
import sys
early = 'colorsys' in sys.modules
import colorsys, json, os
disk = os.statvfs('/workspace')
try:
    open('/data/shop/new', 'w')
    kept = False
except OSError:
    kept = True
print(json.dumps([early, disk.f_blocks * disk.f_frsize >> 20, open('/data/shop/sales.csv').read(), kept]))
";
    let outcome = fleet.run(Job::python(code), None).await?;
    let seen: serde_json::Value =
        serde_json::from_str(&outcome.stdout).with_context(|| format!("not JSON: {outcome:?}"))?;
    ensure!(seen == json!([true, 24, "41\n", true]), "{seen}");
    let limits = outcome.limits.context("no limits")?;
    ensure!(
        (limits.wall_ms, limits.cpu_ms, limits.memory_bytes, limits.pids) == (20_000, 10_000, 128 << 20, 32),
        "{limits:?}"
    );

    let with_memory = async |bytes: u64| {
        let mut job = Job::python("");
        job.limits.memory_bytes = Some(bytes);
        fleet.run(job, None).await
    };
    ensure!(with_memory(512 << 20).await?.status == Status::Succeeded, "the ceiling is lower");
    ensure!(with_memory((512 << 20) + 1).await?.status == Status::Rejected, "the ceiling is higher");
    fleet.close().await;
    Ok(())
}

async fn a_dropped_fleet_leaves_no_process() -> Result<()> {
    let fleet = Fleet::embedded(one_slot()).await?;
    fleet.run(Job::python(""), None).await?;
    let handle = fleet.submit(Job::python("import time\ntime.sleep(600)"), None).await?;
    ensure!(!children()?.is_empty(), "the fleet has no process");
    // The client outlives the fleet, so the handle is not simply given up with it.
    let _client = fleet.client().clone();
    drop(fleet);
    let begun = Instant::now();
    while !children()?.is_empty() {
        ensure!(begun.elapsed() < SOON, "left behind: {:?}", children()?);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The job's outcome comes, or the client learns that it won't.
    match handle.result().await {
        Ok(outcome) => ensure!(outcome.status != Status::Succeeded, "{outcome:?}"),
        Err(error) => ensure!(matches!(error, ClientError::Closed), "{error:?}"),
    }
    Ok(())
}

async fn a_machine_or_option_that_does_not_fit_is_named() -> Result<()> {
    let refused = async |options| match Fleet::embedded(options).await {
        Err(Error::Embedded(why)) => Ok(why),
        other => Err(anyhow::anyhow!("{other:?}")),
    };
    let why = refused(EmbeddedOptions { slots: Some(0), ..one_slot() }).await?;
    ensure!(matches!(why, Unfit::Worker(thermae_worker::Error::Options(_))), "{why:?}");
    let why = refused(EmbeddedOptions { python: Some("/nonexistent/python3".into()), ..one_slot() }).await?;
    ensure!(matches!(why, Unfit::NoPython(_)), "{why:?}");

    let fleet = Fleet::embedded(EmbeddedOptions { python: Some("/bin/ls".into()), ..one_slot() }).await?;
    let why = fleet.run(Job::python(""), None).await;
    ensure!(matches!(&why, Err(Error::Embedded(Unfit::NotPython { .. }))), "{why:?}");
    fleet.close().await;
    Ok(())
}

/// The ids of this process's children.
fn children() -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may end meanwhile.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The command's name, which may contain anything, ends with the last parenthesis.
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        if parent == Some(std::process::id()) {
            children.push(pid);
        }
    }
    Ok(children)
}
