//! Tests of tools files beside a program, and of files that job code leaves there.

use crate::thermae::Thermae;

/// A tools file whose commands leave a file when they are executed.
const HOSTILE: &str = "[tools.get_sales]\ncommand = \"touch executed; echo 1\"\n";

#[test]
fn a_tools_file_beside_a_program_runs_nothing_until_it_is_trusted() {
    let thermae = Thermae::with("main.py", "print(await get_sales())");
    thermae.file("thermae.toml", HOSTILE);
    let untrusted = thermae.call(&["run", "main.py"]);
    assert_eq!(untrusted.status, 1, "{untrusted:?}");
    for words in ["thermae.toml is not trusted", "`thermae trust thermae.toml`", "--tools-file thermae.toml"] {
        assert!(untrusted.stderr.contains(words), "{words}: {untrusted:?}");
    }
    thermae.file("jobs.jsonl", "{\"id\": \"a\", \"code\": \"await get_sales()\"}\n");
    let batch = thermae.call(&["batch", "jobs.jsonl", "--out", "out.jsonl"]);
    assert!(batch.status == 1 && batch.stderr.contains("is not trusted"), "{batch:?}");
    assert!(!thermae.path().join("executed").exists());

    // The control: the same file works if it is named or trusted.
    let named = thermae.call(&["run", "main.py", "--tools-file", "thermae.toml"]);
    assert_eq!((named.status, named.stderr.as_str()), (0, ""), "{named:?}");
    std::fs::remove_file(thermae.path().join("executed")).unwrap();
    let trust = thermae.call(&["trust"]);
    assert!(trust.status == 0 && trust.stdout.contains("get_sales: touch executed; echo 1"), "{trust:?}");
    let trusted = thermae.call(&["run", "main.py"]);
    assert_eq!((trusted.status, trusted.stdout.as_str(), trusted.stderr.as_str()), (0, "1\n", ""), "{trusted:?}");
    assert!(thermae.path().join("executed").exists());

    thermae.file("thermae.toml", &format!("{HOSTILE}\n"));
    let changed = thermae.call(&["run", "main.py"]);
    assert!(changed.status == 1 && changed.stderr.contains("has changed since you trusted it"), "{changed:?}");
    thermae.call(&["trust", "thermae.toml"]);
    assert_eq!(thermae.call(&["trust", "--forget"]).status, 0);
    assert_eq!(thermae.call(&["run", "main.py"]).status, 1);
    assert_eq!(thermae.call(&["trust", "--forget"]).status, 1);
    assert_eq!(thermae.call(&["trust", "nowhere.toml"]).status, 2);
}

#[test]
fn what_job_code_leaves_is_not_executed_later() {
    let code = "
import os
os.makedirs('artifacts/.git/hooks')
tools = '[tools.get_sales]\\ncommand = \"touch executed\"\\n'
for name in ['thermae.toml', 'Thermae.toml', '.envrc', '.git/hooks/post-checkout', 'Makefile', 'json.py', 'conftest.py', 'x.pth', 'plot.png']:
    open('artifacts/' + name, 'w').write(tools)
print('left')
";
    let thermae = Thermae::with("main.py", code);
    let answer = thermae.call(&["run", "main.py", "--artifacts", "."]);
    assert_eq!((answer.status, answer.stdout.as_str()), (0, "left\n"), "{answer:?}");
    assert!(thermae.path().join("plot.png").exists(), "the attempt was made: {answer:?}");
    for name in ["thermae.toml", "Thermae.toml", ".envrc", ".git", "Makefile", "json.py", "conftest.py", "x.pth"] {
        assert!(!thermae.path().join(name).exists(), "{name}");
    }
    assert!(answer.stderr.contains("note: saved 1 file in ."), "{answer:?}");
    assert!(answer.stderr.contains("left out: /workspace/artifacts/thermae.toml: "), "{answer:?}");

    // A folder that a tool's program is in must not get modules that the program would import, either.
    let elsewhere = Thermae::with("programs/main.py", "open('artifacts/json.py', 'w').write('x')");
    let answer = elsewhere.call(&["run", "programs/main.py", "--tool", "t=python3 t.py", "--artifacts", "."]);
    assert!(answer.status == 0 && !elsewhere.path().join("json.py").exists(), "{answer:?}");
    let answer = elsewhere.call(&["run", "programs/main.py", "--tool", "t=python3 t.py", "--artifacts", "out"]);
    assert!(answer.status == 0 && elsewhere.path().join("out/json.py").exists(), "{answer:?}");
}
