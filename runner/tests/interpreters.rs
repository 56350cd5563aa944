//! Interpreters: those that live below directories of which every sandbox has its own, such as `/tmp`, and the commands
//! that programs find beside them.

mod common;

use std::path::Path;
use std::process::Command;

use common::beside::{argv, shell};
use common::{Runner, bash, bash_session, program, session, setup};
use thermae_runner::outer::Spec;

/// Makes a virtual environment at that path, with one package of its own, and returns a specification that shows it.
fn environment(at: &Path) -> Spec {
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(at).status().unwrap();
    assert!(made.success());
    let packages = std::fs::read_dir(at.join("lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    std::fs::write(packages.join("of_the_environment.py"), "WHERE = __file__\n").unwrap();
    let mut spec = Spec::for_python(Some(&at.join("bin/python3"))).unwrap();
    spec.memory_bytes = Some(1 << 30);
    spec.pids = Some(512);
    spec
}

#[test]
fn an_environment_below_tmp_is_shown_alone_and_read_only() {
    let dir = tempfile::Builder::new().prefix("thermae-here-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let venv = dir.path().join("clone/venv");
    let spec = environment(&venv);
    std::fs::write(dir.path().join("secret"), "beside it").unwrap();
    std::fs::write(dir.path().join("clone/secret"), "beside it").unwrap();
    let mut runner = Runner::start(&spec, setup(&spec));
    assert_eq!(runner.ready.warnings.iter().filter(|w| w.contains("inner wall")).count(), 0);
    let look = "
import os, sys, of_the_environment, subprocess
print(sys.prefix, of_the_environment.WHERE.startswith(sys.prefix))
print(sorted(p for d, _, fs in os.walk('/tmp') for p in [d, *fs] if not d.startswith(sys.prefix)))
for path in [sys.prefix + '/new', of_the_environment.WHERE]:
    try:
        open(path, 'w')
    except OSError as e:
        print(e.strerror)
open('/tmp/mine', 'w').write('x')
print(subprocess.run([sys.executable, '-c', 'import of_the_environment; print(1)'], capture_output=True, text=True).stdout)
";
    let (root, clone, venv) = (dir.path().display(), dir.path().join("clone"), venv.display());
    let expected = format!(
        "{venv} True\n['/tmp', '{root}', '{}']\nRead-only file system\nRead-only file system\n1\n\n",
        clone.display()
    );
    for _ in 0..2 {
        assert_eq!(runner.python(look).ok(), expected, "and a job leaves nothing for the next");
    }
    let in_session = runner.run(&session("s", "import of_the_environment\nprint(of_the_environment.WHERE)"));
    assert!(in_session.ok().starts_with(&venv.to_string()));
    // A job can neither unmount the environment nor make it writable.
    let attack = "
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
at = sys.prefix.encode()
for call in [lambda: libc.umount2(at, 2), lambda: libc.mount(b'none', at, None, 32 | 4096, None)]:
    print(call(), errno.errorcode[ctypes.get_errno()])
";
    assert_eq!(runner.run(&program(attack)).ok(), "-1 EPERM\n-1 EPERM\n");
}

#[test]
fn links_below_tmp_lead_where_they_did() {
    let dir = tempfile::Builder::new().prefix("thermae-here-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    environment(&dir.path().join("real/venv"));
    let link = dir.path().join("current");
    std::os::unix::fs::symlink("real", &link).unwrap();
    let mut spec = Spec::for_python(Some(&link.join("venv/bin/python3"))).unwrap();
    (spec.memory_bytes, spec.pids) = (Some(1 << 30), Some(512));
    let mut runner = Runner::start(&spec, setup(&spec));
    let look = "import sys, os, of_the_environment\nprint(sys.prefix, os.path.realpath(sys.prefix))";
    let expected = format!("{} {}\n", link.join("venv").display(), dir.path().join("real/venv").display());
    assert_eq!(runner.python(look).ok(), expected);
}

/// Writes a command that says who it is, for an interpreter that is found on `PATH`.
fn command(folder: &Path, name: &str, code: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(name), format!("#!/usr/bin/env python3\n{code}\n")).unwrap();
    std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn programs_of_every_kind_find_the_interpreter_its_commands_and_added_packages() {
    let dir = tempfile::Builder::new().prefix("thermae-here-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (venv, added) = (dir.path().join("venv"), dir.path().join("added"));
    let mut spec = environment(&venv);
    command(&venv.join("bin"), "twice", "print('of the environment')");
    command(&venv.join("bin"), "own", "import of_the_environment, sys; print(sys.prefix)");
    command(&added.join("bin"), "twice", "import added; print('added')");
    std::fs::write(added.join("added.py"), "").unwrap();
    spec.data.insert("added".into(), added.display().to_string());
    let mut asked = setup(&spec);
    asked.languages[0].options["python_path"] = serde_json::json!(["/data/added"]);
    let mut runner = Runner::start(&spec, asked);
    let line = "python -c 'import sys, added, of_the_environment; print(sys.prefix)'; python3 -c 'import sys; print(sys.executable)'; own; twice";
    let expected = format!("{0}\n{0}/bin/python3\n{0}\nadded\n", venv.display());
    let by_python = format!("import os, subprocess\nsubprocess.run({line:?}, shell=True)\nos.system('own')");
    let own = format!("{}\n", venv.display());
    assert_eq!(runner.python(&by_python).ok(), format!("{expected}{own}"));
    assert_eq!(runner.run(&session("p", &by_python)).ok(), format!("{expected}{own}"));
    assert_eq!(runner.run(&bash(line)).ok(), expected);
    assert_eq!(runner.run(&bash_session("b", line)).ok(), expected);
    for name in ["p", "b"] {
        assert_eq!(runner.beside(&shell(name, line)).ok(), expected);
        assert_eq!(runner.beside(&argv(name, &["own"])).ok(), own);
        assert_eq!(runner.beside(&argv(name, &["twice"])).ok(), "added\n");
    }
    let mut words = bash("");
    words.argv = vec!["own".into()];
    assert_eq!(runner.run(&words).ok(), own);
    // What a run asks for itself still holds.
    let mut elsewhere = bash("echo $PATH; echo ${PYTHONPATH-none}");
    elsewhere.env = [("PATH", "/bin"), ("PYTHONPATH", "/x")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert_eq!(runner.run(&elsewhere).ok(), "/bin\n/x\n");
}

/// Debian's has no `python`, and `python3` may be another version's.
#[test]
fn an_interpreter_has_its_usual_names_whatever_its_own_is() {
    let dir = tempfile::Builder::new().prefix("thermae-here-").tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let folder = dir.path().join("bin");
    command(&folder, "python3", "print('another')");
    let chosen = folder.join("python3.99");
    std::os::unix::fs::symlink(&Spec::for_python(None).unwrap().interpreter, &chosen).unwrap();
    let spec = Spec::for_python(Some(&chosen)).unwrap();
    let mut runner = Runner::start(&spec, setup(&spec));
    let look = "import sys\nprint(sys.version, sys.prefix)";
    let expected = runner.python(look).ok();
    for name in ["python", "python3", "python3.99"] {
        assert_eq!(runner.run(&bash(&format!("{name} -c '{look}'"))).ok(), expected, "{name}");
    }
}

#[test]
fn what_is_the_kernels_is_never_shown() {
    let error = Spec::for_python(Some(Path::new("/proc/self/root/usr/bin/python3"))).unwrap_err().to_string();
    assert!(error.contains("of its own"), "{error}");
}

#[test]
fn what_is_hidden_of_a_shown_folder_is_empty_and_stays_so() {
    let look = "
import ctypes, errno, os, sys, sysconfig
packages = sysconfig.get_paths()['purelib']
print(os.listdir(packages))
libc = ctypes.CDLL(None, use_errno=True)
print(libc.umount2(packages.encode(), 2), errno.errorcode[ctypes.get_errno()])
try:
    os.mkdir(packages + '/new')
except OSError as e:
    print(e.strerror)
";
    for root in ["/tmp", "/var/tmp"] {
        let dir = tempfile::Builder::new().prefix("thermae-here-").tempdir_in(root).unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut spec = environment(&dir.path().join("venv"));
        let mut runner = Runner::start(&spec, setup(&spec));
        assert!(runner.python(look).ok().starts_with("['of_the_environment.py']\n"));
        let library = std::fs::read_dir(dir.path().join("venv/lib")).unwrap().next().unwrap().unwrap().path();
        spec.hide.push(library.join("site-packages").display().to_string());
        let mut runner = Runner::start(&spec, setup(&spec));
        assert_eq!(runner.python(look).ok(), "[]\n-1 EPERM\nRead-only file system\n", "{root}");
    }
}
