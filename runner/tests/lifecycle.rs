//! The runner's own life: its worker's end, hung and dead zygotes, ordinary users, machines that forbid the inner wall.

mod common;

use std::os::unix::process::CommandExt;
use std::process::Command;

use common::{Runner, below, limits, preloading, program, session, setup, spec};
use thermae_runner::frames::{End, Frame, Kind, Limits, Run};

/// What only the runner's interpreters have on their command lines.
const ZYGOTE: &str = "\0-I\0-B\0-c\0";

/// The bare zygote: the first interpreter that the runner started.
fn zygote(runner: &Runner) -> u32 {
    *below(runner.child.id(), ZYGOTE).first().expect("a zygote")
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn the_worker_leaves_and_everything_ends() {
    let mut runner = Runner::new();
    let run = runner.begin(&program("import time\nprint('in', flush=True)\ntime.sleep(600)"));
    runner.wait_output(run, "in");
    let all = below(runner.child.id(), "");
    assert!(all.len() >= 4, "{all:?}");
    assert_eq!(runner.leave().code(), Some(0));
    for pid in all {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} lives on");
    }
}

#[test]
fn a_killed_supervisor_takes_everything_along() {
    let mut runner = Runner::new();
    let all = below(runner.child.id(), "");
    runner.child.kill().unwrap();
    runner.child.wait().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while all.iter().any(|p| std::path::Path::new(&format!("/proc/{p}")).exists()) {
        assert!(std::time::Instant::now() < until, "something lives on");
        std::thread::yield_now();
    }
    // The killed supervisor could not remove its control groups. The next start does.
    let name = format!("thermae-{}", runner.child.id());
    while groups(&name) {
        assert!(std::time::Instant::now() < until, "the control group stays");
        Runner::new();
    }
}

/// Whether any hierarchy has a group of that name below this process's own.
fn groups(name: &str) -> bool {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    own.lines().any(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap(), parts.next().unwrap().trim_start_matches('/'));
        [controllers, "unified", ""]
            .iter()
            .any(|hierarchy| std::path::Path::new("/sys/fs/cgroup").join(hierarchy).join(path).join(name).exists())
    })
}

#[test]
fn shutdown_and_sigterm_are_prompt() {
    let mut runner = Runner::new();
    let run = runner.begin(&program("import time\ntime.sleep(600)"));
    runner.wait_started(run);
    runner.send(&Frame::raw(Kind::Shutdown, 0, Vec::new()));
    assert_eq!(runner.child.wait().unwrap().code(), Some(0));
    let mut runner = Runner::new();
    signal(runner.child.id(), "TERM");
    runner.child.wait().unwrap();
}

#[test]
fn kill_and_interrupt_reach_the_code() {
    let mut runner = Runner::new();
    let sleep = program(
        "import time\ntry:\n    print('in', flush=True)\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('seen')",
    );
    let run = runner.begin(&sleep);
    runner.wait_output(run, "in");
    runner.send(&Frame::raw(Kind::Interrupt, run, Vec::new()));
    let outcome = runner.wait(run);
    assert_eq!((outcome.end(), &*outcome.out()), (&End::Interrupted, "in\nseen\n"));
    let run = runner.begin(&sleep);
    runner.wait_output(run, "in");
    runner.send(&Frame::raw(Kind::Kill, run, Vec::new()));
    assert_eq!(runner.wait(run).end(), &End::Killed);
    let run = runner.begin(&session("k", "import time\ntime.sleep(600)"));
    runner.wait_started(run);
    runner.send(&Frame::raw(Kind::CloseSession, 0, *b"k"));
    assert_eq!(runner.wait(run).end(), &End::Killed);
    assert_eq!(runner.wait_closed(), "k");
}

#[test]
fn a_dead_zygote_is_started_anew() {
    let mut runner = Runner::new();
    let before = zygote(&runner);
    signal(before, "KILL");
    for _ in 0..5 {
        assert_eq!(runner.python("print('on')").ok(), "on\n");
    }
    assert_ne!(zygote(&runner), before);
}

/// The zygote of bash is a copy of the runner from before its first job, so there can be no other one later.
#[test]
fn without_the_zygote_of_bash_the_runner_ends() {
    let mut runner = Runner::new();
    let comm = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let found = below(runner.child.id(), "").into_iter().find(|pid| comm(pid) == "bash zygote\n").expect("it is there");
    signal(found, "KILL");
    assert_eq!(runner.child.wait().unwrap().code(), Some(3));
}

/// Libraries seed themselves anew when a fork has changed their pid. If a zygote had a job's pid, it would hide the
/// fork.
#[test]
fn no_job_has_the_pid_of_its_zygote() {
    let mut runner = Runner::new();
    let status = std::fs::read_to_string(format!("/proc/{}/status", zygote(&runner))).unwrap();
    let pids = status.lines().find_map(|l| l.strip_prefix("NSpid:")).unwrap();
    let own: u32 = pids.split_whitespace().last().unwrap().parse().unwrap();
    assert!(own > 9000, "{pids}");
    let job: u32 = runner.run(&program("import os; print(os.getpid())")).ok().trim().parse().unwrap();
    assert!(job < 10, "{job}");
}

#[test]
fn a_hung_zygote_is_replaced_and_the_run_is_neither_lost_nor_doubled() {
    let spec = spec();
    let mut runner = Runner::start(&spec, common_without_spares(&spec));
    assert_eq!(runner.python("print('before')").ok(), "before\n");
    let before = zygote(&runner);
    signal(before, "STOP");
    let outcome = runner.python("print('after')");
    match outcome.end() {
        End::NotStarted { .. } => assert!(!outcome.started),
        _ => assert_eq!(outcome.ok(), "after\n"),
    }
    assert_eq!(runner.python("print('again')").ok(), "again\n");
    assert_ne!(zygote(&runner), before);
}

fn common_without_spares(spec: &thermae_runner::outer::Spec) -> thermae_runner::frames::Setup {
    thermae_runner::frames::Setup { spares: 0, ..setup(spec) }
}

#[test]
fn a_killed_spare_is_not_handed_out() {
    let mut runner = Runner::new();
    let zygote = zygote(&runner);
    for spare in below(runner.child.id(), ZYGOTE).into_iter().filter(|p| *p != zygote) {
        signal(spare, "KILL");
    }
    for _ in 0..3 {
        assert_eq!(runner.python("print('fine')").ok(), "fine\n");
    }
}

#[test]
fn a_lazy_loaded_zygote_starts_with_the_first_import() {
    let spec = spec();
    let mut runner = Runner::start(&spec, preloading(&spec, &["decimal", "no_such_module"], false));
    assert!(runner.ready.preloaded.is_empty());
    let code = "import sys\nhad = '_decimal' in sys.modules\nimport decimal\nprint(had)";
    assert_eq!(runner.python(code).ok(), "False\n");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while runner.python(code).ok() != "True\n" {
        assert!(std::time::Instant::now() < until, "no loaded zygote");
    }
    assert_eq!(runner.python("import sys\nprint('_decimal' in sys.modules)").ok(), "False\n");
}

/// The loaded zygote ends if it could import nothing of its list. A run that comes at that moment must not wait for it.
#[test]
fn a_preload_list_that_gives_nothing_leaves_no_run_waiting() {
    let spec = spec();
    for _ in 0..20 {
        let mut runner = Runner::start(&spec, preloading(&spec, &["no_such_module"], true));
        assert_eq!(runner.run(&program("import random\nprint(1)")).ok(), "1\n");
    }
}

#[test]
fn an_eager_preload_list_is_reported() {
    let spec = spec();
    let runner = Runner::start(&spec, preloading(&spec, &["decimal", "no_such_module"], true));
    assert_eq!(runner.ready.preloaded, ["decimal"]);
    assert!(runner.ready.warnings.iter().any(|w| w.contains("no_such_module")), "{:?}", runner.ready.warnings);
}

#[test]
fn without_an_inner_wall_a_job_is_still_bounded_and_filtered() {
    let spec = spec();
    let mut runner = Runner::start(&spec, thermae_runner::frames::Setup { nested: false, ..setup(&spec) });
    assert!(!runner.ready.nested);
    assert_eq!(runner.python("import os\nprint(os.getcwd())").ok(), "/tmp\n");
    let bounded = Run { limits: Limits { memory_bytes: 64 << 20, ..limits() }, ..program("x = bytearray(500 << 20)") };
    assert_eq!(runner.run(&bounded).end(), &End::OutOfMemory);
    let code = "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\nprint(l.unshare(0x10000000), ctypes.get_errno())\ntry: open('/proc/1/mem', 'rb')\nexcept PermissionError: print('closed')";
    assert_eq!(runner.python(code).ok(), "-1 1\nclosed\n");
    let daemon = "import os, time\nif os.fork() == 0:\n    time.sleep(600)\nprint('left')";
    assert_eq!(runner.python(daemon).ok(), "left\n");
    let seen = "import os\nprint(sum('sleep(600)' in open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit() and os.path.exists(f'/proc/{p}/cmdline')))";
    assert_eq!(runner.python(seen).ok(), "0\n");
}

#[test]
fn an_ordinary_user_has_both_walls_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut spec = thermae_runner::outer::Spec::for_python(Some(std::path::Path::new("/usr/bin/python3"))).unwrap();
    spec.memory_bytes = Some(1 << 30);
    // The build's directory may be closed to other users.
    let binary = std::env::temp_dir().join(format!("thermae-runner-user-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_thermae-runner"), &binary).unwrap();
    let mut command = Command::new(&binary);
    command.uid(65_533).gid(65_533);
    let mut runner = Runner::launch(command, Some(&spec), setup(&spec));
    std::fs::remove_file(&binary).unwrap();
    assert!(runner.ready.nested, "{:?}", runner.ready.warnings);
    assert!(runner.ready.warnings.iter().any(|w| w.contains("control group")), "{:?}", runner.ready.warnings);
    let code = "import os\nprint(1 + 1, os.getuid(), os.path.exists('/var'), sorted(p for p in os.listdir('/proc') if p.isdigit()))";
    assert_eq!(runner.python(code).ok(), "2 1000 False ['1', '2']\n");
    let hog = "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        x = bytearray(os.urandom(1 << 20) * 60)\n        time.sleep(60)\ntime.sleep(60)";
    assert_eq!(runner.python(hog).end(), &End::OutOfMemory);
    let family = "import os, time\nx = bytearray(os.urandom(1 << 20) * 60)\nfor _ in range(8):\n    if os.fork() == 0:\n        time.sleep(60)\ntime.sleep(0.5)\nprint(len(x) >> 20)";
    assert_eq!(runner.python(family).ok(), "60\n", "what children share counts once");
    let write = "try: open('/usr/x', 'w')\nexcept OSError as e: print(e.errno)";
    assert_eq!(runner.python(write).ok(), "30\n");
}

/// A container like Docker's, made with util-linux: new namespaces, an unprivileged user, the machine's files in place
/// of an image's, and no way to gain capabilities.
#[test]
fn in_a_container_made_by_another_the_runner_masks_what_that_shows() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let binary = std::env::temp_dir().join(format!("thermae-runner-inside-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_thermae-runner"), &binary).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts", "--mount-proc", "--"]);
    command.args(["setpriv", "--reuid", "65532", "--regid", "65532", "--clear-groups", "--bounding-set", "-all"]);
    command.args(["--no-new-privs", "--"]).arg(&binary);
    let spec = thermae_runner::outer::Spec::for_python(Some(std::path::Path::new("/usr/bin/python3"))).unwrap();
    let mut runner = Runner::launch(command, None, setup(&spec));
    std::fs::remove_file(&binary).unwrap();
    assert!(runner.ready.nested, "{:?}", runner.ready.warnings);
    let code = "
import os
print(os.getcwd(), os.listdir('/tmp'), os.listdir('/sys'), os.listdir('/run'))
print(sorted(os.listdir('/dev')))
for f in ['/proc/sys/kernel/shmmax', '/etc/x', '/var/x', '/dev/x']:
    try: print(open(f, 'a'))
    except OSError as e: print(e.errno)
open('/tmp/mine', 'w').write('x')
print(open('/dev/null', 'w').write('x'), len(open('/dev/urandom', 'rb').read(3)), os.getuid())
";
    let got = runner.python(code).ok();
    let lines: Vec<_> = got.lines().collect();
    assert!(lines[0].ends_with("[] [] []"), "{got}");
    assert_eq!(lines[1], "['fd', 'full', 'null', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'urandom', 'zero']");
    assert_eq!(lines[2..], ["30", "30", "30", "30", "1 3 1000"], "{got}");
    assert!(runner.python("import os\nprint(os.listdir('/tmp'))").ok().ends_with("[]\n"));
}

#[test]
fn where_it_cannot_work_it_says_so() {
    let spec = spec();
    let dir = std::env::temp_dir().join(format!("thermae-runner-fatal-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(dir.join("s")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_thermae-runner"))
        .arg("--connect")
        .arg(dir.join("s"))
        .arg("--outer")
        .arg(serde_json::to_string(&spec).unwrap())
        .spawn()
        .unwrap();
    let (mut socket, _) = listener.accept().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let setup =
        preloading(&thermae_runner::outer::Spec { interpreter: "/no/such/python".into(), ..spec.clone() }, &[], true);
    let mut bytes = Vec::new();
    Frame::json(Kind::Setup, 0, &setup).unwrap().encode(&mut bytes);
    std::io::Write::write_all(&mut socket, &bytes).unwrap();
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut socket, &mut answer).unwrap();
    let (frame, _) = Frame::decode(&answer).unwrap().unwrap();
    assert_eq!(frame.kind, Kind::Fatal);
    assert!(String::from_utf8_lossy(&frame.body).contains("/no/such/python"));
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

/// The contents of the files of this name in a runner's control groups.
fn of_group(runner: &Runner, file: &str) -> Vec<String> {
    let name = format!("thermae-{}", runner.child.id());
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let read = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let places =
            [controllers, "unified", ""].map(|hierarchy| std::path::Path::new("/sys/fs/cgroup").join(hierarchy));
        places.iter().find_map(|place| std::fs::read_to_string(place.join(path).join(&name).join(file)).ok())
    };
    own.lines().filter_map(read).map(|text| text.trim().to_owned()).collect()
}

#[test]
fn a_container_has_its_share_of_the_processors_or_says_that_it_has_none() {
    let mut wall = spec();
    (wall.cpu_shares, wall.cpu_quota) = (Some(300), Some(37));
    let runner = Runner::start(&wall, setup(&wall));
    if runner.ready.warnings.iter().any(|warning| warning.contains("no quota of CPU time")) {
        return;
    }
    let (version_1, version_2) = (of_group(&runner, "cpu.cfs_quota_us"), of_group(&runner, "cpu.max"));
    assert!(version_1.contains(&"37000".to_owned()) || version_2.contains(&"37000 100000".to_owned()));
    let (version_1, version_2) = (of_group(&runner, "cpu.shares"), of_group(&runner, "cpu.weight"));
    assert!(version_1.contains(&"300".to_owned()) || version_2.contains(&"30".to_owned()));
}
