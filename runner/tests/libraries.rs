//! Libraries in sandboxes: how those that a zygote has preloaded notice the fork, and what they need around them.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Runner, preloading};
use thermae_runner::outer::Spec;

/// Makes a virtual environment with these modules and returns its interpreter.
fn with_modules(name: &str, modules: &[(&str, &str)]) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let made = Command::new("/usr/bin/python3").args(["-m", "venv", "--without-pip"]).arg(&dir).status().unwrap();
    assert!(made.success());
    let versions = std::fs::read_dir(dir.join("lib")).unwrap();
    let site = versions.flatten().next().unwrap().path().join("site-packages");
    for (module, text) in modules {
        std::fs::write(site.join(format!("{module}.py")), text).unwrap();
    }
    dir.join("bin/python3")
}

fn with_preloaded(python: &Path, modules: &[&str]) -> Runner {
    let mut spec = Spec::for_python(Some(python)).unwrap();
    spec.memory_bytes = Some(1 << 30);
    let runner = Runner::start(&spec, preloading(&spec, modules, true));
    assert_eq!(runner.ready.preloaded, modules, "{:?}", runner.ready.warnings);
    runner
}

/// A library can notice a fork in four ways, three of which work. The fourth does not: handlers of `pthread_atfork` are
/// called by the C library, which does not see this fork. Libraries that rely on them alone can't be preloaded. (18 is
/// `MADV_WIPEONFORK`, which Python does not name.)
#[test]
fn a_preloaded_library_notices_the_fork() {
    let by_pid = "import mmap, os\nPID = os.getpid()\nm = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nm.madvise(18)\nm[0] = 1\n";
    let by_hook = "import os\nforked = []\nos.register_at_fork(before=lambda: forked.append(0), after_in_child=lambda: forked.append(os.getpid()))\n";
    let by_libc = "import ctypes\ncalled = []\nhook = ctypes.CFUNCTYPE(None)(lambda: called.append(1))\nctypes.CDLL(None).__register_atfork(None, None, hook, None)\n";
    let python = with_modules("forks", &[("by_pid", by_pid), ("by_hook", by_hook), ("by_libc", by_libc)]);
    // By a pid that has changed, or by memory that the kernel empties: neither needs a hook.
    let mut runner = with_preloaded(&python, &["by_pid"]);
    for _ in 0..5 {
        let seen = "import by_pid, os, sys\nprint(by_pid.PID > 1000 > os.getpid(), by_pid.m[0])";
        assert_eq!(runner.python(seen).ok(), "True 0\n");
    }
    // By the interpreter's hooks. All of them run if a module registers one that the zygote does not know.
    let mut runner = with_preloaded(&python, &["by_hook"]);
    for _ in 0..5 {
        let seen = "import by_hook, os, threading\nprint(by_hook.forked[-2:] == [0, os.getpid()], threading.main_thread().native_id == os.getpid())";
        assert_eq!(runner.python(seen).ok(), "True True\n");
    }
    let mut runner = with_preloaded(&python, &["by_libc"]);
    assert_eq!(runner.python("import by_libc\nprint(by_libc.called)").ok(), "[]\n");
    std::fs::remove_dir_all(python.ancestors().nth(2).unwrap()).unwrap();
}

#[test]
fn fonts_are_found_without_a_word() {
    if !Path::new("/usr/bin/fc-list").exists() {
        return;
    }
    let python = with_modules(
        "fonts",
        &[("finds_fonts", "import subprocess\nran = subprocess.run(['fc-list'], capture_output=True)\n")],
    );
    let mut runner = with_preloaded(&python, &["finds_fonts"]);
    let code =
        "import subprocess\nran = subprocess.run(['fc-list'], capture_output=True)\nprint(ran.returncode, ran.stderr)";
    assert_eq!(runner.python(code).ok(), "0 b''\n");
    let before = "import finds_fonts\nprint(finds_fonts.ran.returncode, finds_fonts.ran.stderr)";
    assert_eq!(runner.python(before).ok(), "0 b''\n");
    std::fs::remove_dir_all(python.ancestors().nth(2).unwrap()).unwrap();
}
