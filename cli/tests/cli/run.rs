//! Tests of `thermae run`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::thermae::Thermae;

fn run(code: &str, more: &[&str]) -> crate::thermae::Answer {
    let thermae = Thermae::with("main.py", code);
    thermae.call(&[&["run", "main.py"], more].concat())
}

#[test]
fn a_programs_output_is_our_output() {
    let answer = run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n1 + 1\n", &[]);
    insta::assert_snapshot!(answer.show(), @r"
    status 0
    --- stdout
    out
    --- stderr
    err
    ");
}

#[test]
fn a_program_may_come_from_standard_input() {
    let answer = Thermae::new().call_with_input(&["run", "-"], "print(6 * 7)");
    assert_eq!((answer.status, answer.stdout.as_str()), (0, "42\n"), "{answer:?}");
}

#[test]
fn the_last_value_is_printed_on_wish() {
    let answer = run("print('a')\n[1, 'b']\n", &["--value"]);
    assert_eq!((answer.status, answer.stdout.as_str()), (0, "a\n[1, 'b']\n"), "{answer:?}");
}

#[test]
fn an_exception_is_told_with_its_line_and_status_1() {
    let answer = run("def f(x):\n    return 1 / x\n\nf(0)\n", &[]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert_eq!(answer.stdout, "");
    assert!(answer.stderr.starts_with("Traceback (most recent call last):\n"), "{}", answer.stderr);
    assert!(answer.stderr.contains("line 2, in f\n    return 1 / x\n"), "{}", answer.stderr);
    assert!(answer.stderr.ends_with("ZeroDivisionError: division by zero\n"), "{}", answer.stderr);
    assert!(!answer.stderr.contains('\u{1b}'), "no colours without a terminal");
    let coloured = run("1 / 0", &["--color", "always"]);
    assert!(coloured.stderr.contains("\u{1b}["), "{}", coloured.stderr);
}

#[test]
fn scripts_and_commands_run_in_bash() {
    let thermae = Thermae::with("main.sh", "echo $((6 * 7))\npwd\nexit 3");
    let answer = thermae.call(&["run", "main.sh"]);
    assert_eq!((answer.status, answer.stdout.as_str()), (1, "42\n/workspace\n"), "{answer:?}");
    assert!(answer.stderr.starts_with("error[code_exited]: ") && answer.stderr.contains('3'), "{}", answer.stderr);
    let answer = thermae.call(&["run", "--file", "main.sh", "--", "grep", "-cF", "echo $", "main.sh"]);
    assert_eq!((answer.status, answer.stdout.as_str()), (0, "1\n"), "{answer:?}");
    let answer = thermae.call(&["run", "main.sh", "--tool", "t=cat"]);
    assert_eq!(answer.status, 2, "{answer:?}");
    assert!(answer.stderr.contains("can't call tools"), "{}", answer.stderr);
}

#[test]
fn an_exit_status_of_the_code_is_status_1() {
    let answer = run("import sys\nsys.exit(7)", &[]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.stderr.starts_with("error[code_exited]: "), "{}", answer.stderr);
    assert!(answer.stderr.contains('7'), "{}", answer.stderr);
    assert_eq!(run("import sys\nsys.exit(0)", &[]).status, 0);
}

#[test]
fn a_limit_that_is_reached_is_named_with_what_to_do() {
    let answer = run("while True: pass", &["--wall", "300ms"]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.stderr.contains("error[wall_timeout]: ") && answer.stderr.contains("--wall"), "{}", answer.stderr);
}

#[test]
fn machines_get_one_json_object() {
    let answer = run("print('é')\n{'a': 1}\n", &["--json"]);
    assert_eq!((answer.status, answer.stderr.as_str()), (0, ""), "{answer:?}");
    let line: Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!((line["status"].as_str(), line["stdout"].as_str()), (Some("succeeded"), Some("é\n")));
    assert_eq!(line["value"]["text/plain"], "{'a': 1}");
    assert!(line["usage"]["wall_ms"].as_f64().unwrap() > 0.0 && line["id"].is_string(), "{line}");

    let failed = run("raise ValueError('no')", &["--json"]);
    let line: Value = serde_json::from_str(&failed.stdout).unwrap();
    assert_eq!((failed.status, line["error"]["code"].as_str()), (1, Some("code_raised")));
    assert_eq!(line["error"]["exception"], "ValueError");

    let usage = Thermae::new().call(&["run", "nowhere.py", "--json"]);
    let line: Value = serde_json::from_str(&usage.stdout).unwrap();
    assert_eq!((usage.status, line["error"]["code"].as_str()), (2, Some("file_not_read")));
}

#[test]
fn environment_input_and_session_arrive() {
    let thermae = Thermae::with("main.py", "import os, sys\nprint(os.environ['A'], os.environ['B'], sys.stdin.read())");
    thermae.file("input.txt", "from a file");
    let args = ["run", "main.py", "--env", "A=1=2", "--env", "B", "--stdin", "input.txt", "--session", "s"];
    let output = thermae.command(&args).env("B", "ours").output().unwrap();
    let answer = crate::thermae::Answer::from(output);
    assert_eq!((answer.status, answer.stdout.as_str()), (0, "1=2 ours from a file\n"), "{answer:?}");
    assert!(answer.stderr.contains("note: the embedded fleet ends with this command"), "{}", answer.stderr);
}

#[test]
fn inputs_arrive_as_values() {
    let thermae = Thermae::with("main.py", "print(list(rows), rows['b'] + 1, name)");
    thermae.file("rows.json", r#"{"b": 123456789012345678901234567890, "a": null}"#);
    let answer = thermae.call(&["run", "main.py", "--input", "rows=@rows.json", "--input", r#"name="x=y""#]);
    assert_eq!(
        (answer.status, answer.stdout.as_str()),
        (0, "['b', 'a'] 123456789012345678901234567891 x=y\n"),
        "{answer:?}"
    );
    for (input, says) in [
        ("rows", "use --input NAME=JSON"),
        ("class=1", "is a keyword"),
        ("a-b=1", "is not an identifier"),
        ("x=text", "--input 'x=\"text\"'"),
        ("x=[1e400]", "the value can't be used: at /0: number out of range"),
        ("x={\"a\": 1, \"a\": 2}", "the value can't be used: at /a: the key \"a\" stands twice"),
        ("x=@gone.json", "gone.json"),
    ] {
        let answer = thermae.call(&["run", "main.py", "--input", input]);
        assert_eq!(answer.status, 2, "{answer:?}");
        assert!(answer.stderr.contains(says), "{}", answer.stderr);
    }
    let answer = thermae.call(&["run", "main.py", "--input", "x=1", "--input", "x=2"]);
    assert!(answer.stderr.contains("given twice"), "{}", answer.stderr);
}

/// Python keeps integers and the order of keys, and writes fractions in its own way. The command gets what it writes.
#[test]
fn json_of_any_form_comes_through_as_it_was_written() {
    let code = "import json\nprint(repr(x) == repr(json.loads(text)), repr((await echo(v=x))['v']) == repr(x), \
                json.dumps(x, ensure_ascii=False, separators=(',', ':')), sep='\\n')\n\
                class Shown:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n        \
                return {'application/json': x, 'text/plain': ''}\nShown()";
    let thermae = Thermae::with("main.py", code);
    let list = thermae_testkit::json::list(100);
    thermae.file("x.json", &list);
    thermae.file("text.json", &serde_json::Value::from(list.as_str()).to_string());
    thermae
        .file("tools.toml", "[tools.echo]\ncommand = 'tee asked.json'\n[tools.echo.input_schema]\ntype = 'object'\n");
    let run = ["run", "main.py", "--tools-file", "tools.toml", "--input", "x=@x.json", "--input", "text=@text.json"];
    let shown = thermae.call(&run);
    let written = shown.stdout.strip_prefix("True\nTrue\n").unwrap_or_else(|| panic!("{list}: {shown:?}")).trim_end();
    assert_eq!(thermae.read("asked.json"), format!(r#"{{"v":{written}}}"#));
    let line = thermae.call(&[&run[..], &["--json"]].concat()).stdout;
    assert!(line.contains(&format!(r#""application/json":{written}"#)) && line.lines().count() == 1, "{line}");
}

#[test]
fn what_a_command_prints_has_one_reading() {
    let thermae =
        Thermae::with("main.py", "try:\n    print(await odd())\nexcept ToolError as error:\n    print(error)");
    for (json, why) in [
        (r#"{"n": [0, 1e400]}"#, "at /n/1: number out of range"),
        (r#"{"a": 1, "a": 2}"#, r#"at /a: the key "a" stands twice"#),
    ] {
        thermae.file("odd.json", json);
        let answer = thermae.call(&["run", "main.py", "--tool", "odd=cat odd.json"]);
        assert!(answer.stdout.contains(&format!("printed JSON that can't be used ({why})")), "{answer:?}");
    }
}

#[test]
fn tools_come_from_the_command_line_and_from_the_trusted_file_beside_the_program() {
    let thermae = Thermae::with(
        "programs/main.py",
        "import asyncio\nprint(await asyncio.gather(double(n=4), where(), double(n=5)))\n\
         try:\n    await broken()\nexcept ToolError as error:\n    print('caught:', error)\n",
    );
    thermae.file("programs/thermae.toml", "[tools.where]\ncommand = \"cat note.txt\"\n");
    thermae.file("programs/note.txt", "\"beside\"");
    assert_eq!(thermae.call(&["trust", "programs/thermae.toml"]).status, 0);
    let double = "double=python3 -c 'import json, sys; print(json.load(sys.stdin)[\"n\"] * 2)'";
    let answer =
        thermae.call(&["run", "programs/main.py", "--tool", double, "--tool", "broken=echo sorry >&2; exit 4"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    assert_eq!(answer.stdout, "[8, 'beside', 10]\ncaught: the tool broken ended with status 4: sorry\n");
}

#[test]
fn a_call_without_await_is_told_unless_tools_are_synchronous() {
    let double = "double=python3 -c 'import json, sys; print(json.load(sys.stdin)[\"n\"] * 2)'";
    let forgot = run("double(n=4)\nprint('end')", &["--tool", double]);
    assert_eq!((forgot.status, forgot.stdout.as_str()), (0, "end\n"));
    let note = "note: You called double without await, so it did not run: write `await double(...)`.";
    assert!(forgot.stderr.contains(note), "{}", forgot.stderr);
    let synchronous = run("print(double(n=4) + 1)", &["--tool", double, "--sync-tools"]);
    assert_eq!((synchronous.stdout.as_str(), synchronous.stderr.as_str()), ("9\n", ""));
}

#[test]
fn a_programs_text_names_no_tools() {
    let code = "# [tools.x]\n# command = 'true'\n#: --tool x=true\nawait x()";
    let answer = run(code, &[]);
    assert_eq!(answer.status, 1);
    assert!(answer.stderr.contains("NameError"), "{}", answer.stderr);
}

#[test]
fn bytes_that_are_no_text_are_printed_as_they_are() {
    let thermae = Thermae::with("main.py", "import sys\nsys.stdout.buffer.write(b'\\xff\\x00a\\r\\n\\n')");
    let output = thermae.command(&["run", "main.py"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"\xff\x00a\r\n\n".as_slice()));
}

#[test]
fn output_is_shown_while_the_code_runs() {
    let thermae = Thermae::with("main.py", "print('first', flush=True)\nprint(await ask())\nprint('last')");
    let fifo = thermae.path().join("go");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The tool answers only after this test has read the first line.
    let mut child = thermae
        .command(&["run", "main.py", "--stream", "--tool", "ask=cat go"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    std::fs::write(&fifo, "\"second\"").unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(rest, ["second", "last"]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn ctrl_c_ends_it_with_130_and_kills_the_code() {
    let thermae = Thermae::with("main.py", "print('running', flush=True)\nwhile True: pass");
    let mut child =
        thermae.command(&["run", "main.py", "--stream"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "running\n");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn ctrl_c_shows_what_was_printed_so_far() {
    // The tool's call shows that both lines have been printed.
    let code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nawait here()\n";
    for json in [false, true] {
        let thermae = Thermae::with("main.py", code);
        let fifo = thermae.path().join("here");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let more: &[&str] = if json { &["--json"] } else { &["--stream=never"] };
        let args = [&["run", "main.py", "--tool", "here=echo > here; sleep 60"], more].concat();
        let child = thermae.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::fs::read(&fifo).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let answer = crate::thermae::Answer::from(child.wait_with_output().unwrap());
        assert_eq!(answer.status, 130, "{answer:?}");
        if json {
            let line: Value = serde_json::from_str(&answer.stdout).unwrap();
            assert_eq!((&line["stdout"], &line["stderr"]), (&"out\n".into(), &"err\n".into()), "{line}");
            assert_eq!(line["status"], "cancelled");
        } else {
            assert_eq!(answer.stdout, "out\n", "{answer:?}");
            assert!(answer.stderr.starts_with("err\n"), "{answer:?}");
        }
    }
}

#[test]
fn ctrl_c_ends_the_wait_for_a_pipe() {
    for (pipe, args) in [("main.py", ["run", "main.py"].as_slice()), ("data", &["run", "there.py", "--file", "data"])] {
        let thermae = Thermae::with("there.py", "print(1)");
        let path = thermae.path().join(pipe);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let child = thermae.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Opening the pipe waits until the command reads it. Then the command waits for data that never comes.
        let held = std::fs::File::options().write(true).open(&path).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
        let answer = crate::thermae::Answer::from(child.wait_with_output().unwrap());
        assert_eq!((answer.status, answer.stdout.as_str()), (130, ""), "{answer:?}");
        drop(held);
    }
}

#[test]
fn an_answer_that_can_not_be_written_is_an_error() {
    let thermae = Thermae::with("main.py", "print('out')");
    for args in [["run", "main.py"].as_slice(), &["run", "main.py", "--json"], &["--help"], &["completions", "bash"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = thermae.command(args).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output();
        let answer = crate::thermae::Answer::from(output.unwrap());
        assert_eq!(answer.status, 2, "{args:?}: {answer:?}");
        assert!(answer.stderr.contains("error[output_not_written]: "), "{args:?}: {answer:?}");
        assert!(answer.stderr.contains("No space left on device"), "{args:?}: {answer:?}");
    }
    // A reader that has gone is no error.
    let mut child = thermae.command(&["run", "main.py"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let answer = crate::thermae::Answer::from(child.wait_with_output().unwrap());
    assert_eq!((answer.status, answer.stderr.as_str()), (0, ""), "{answer:?}");
}

#[test]
fn the_embedded_fleet_is_as_large_as_it_is_asked_to_be() {
    let code = "
block = bytearray(600 << 20)
block[::4096] = b'x' * len(block[::4096])
print(len(block) >> 20, open('/data/sales/a.csv').read().strip(), open('/data/one').read().strip())
open('large', 'wb').write(bytes(100 << 20))
";
    let thermae = Thermae::with("main.py", code);
    thermae.file("sales/a.csv", "1,2\n");
    let data = ["--data", "sales=./sales", "--data", "one=sales/a.csv"];
    let args = [&["run", "main.py", "--memory", "1GiB", "--disk", "128MiB"], &data[..]].concat();
    let answer = thermae.call(&args);
    assert_eq!((answer.status, answer.stdout.as_str()), (0, "600 1,2 1,2\n"), "{answer:?}");

    let write = Thermae::with("main.py", "open('/data/d/x', 'w')");
    write.file("d/x", "mine");
    let answer = write.call(&["run", "main.py", "--data", "d=d"]);
    assert_eq!((answer.status, write.read("d/x").as_str()), (1, "mine"), "{answer:?}");
    for bad in [["--data", "sales"], ["--data", "x=/nonexistent"], ["--memory", "10B"]] {
        let answer = write.call(&[&["run", "main.py"], &bad[..]].concat());
        assert_eq!((answer.status, answer.stdout.as_str()), (2, ""), "{answer:?}");
        assert!(answer.stderr.starts_with("error[usage]: "), "{answer:?}");
    }
    let elsewhere = write.call(&["run", "main.py", "--data", "d=d", "--amqp", "amqp://a:b@127.0.0.1:1"]);
    assert!(elsewhere.status == 2 && elsewhere.stderr.contains("the embedded fleet's"), "{elsewhere:?}");
}

#[test]
fn a_folder_with_a_socket_is_not_shown() {
    let thermae = Thermae::with("main.py", "print(1)");
    thermae.file("shown/a.csv", "1,2\n");
    let _engine = std::os::unix::net::UnixListener::bind(thermae.path().join("shown/engine.sock")).unwrap();
    let answer = thermae.call(&["run", "main.py", "--data", "shown=shown"]);
    assert!(answer.status != 0 && answer.stdout.is_empty(), "{answer:?}");
    assert!(answer.stderr.contains("engine.sock: it is neither a file nor a folder"), "{answer:?}");
}

#[test]
fn a_limit_above_the_ceiling_is_refused_with_advice_that_exists_here() {
    let answer = run("print(1)", &["--memory", "1000GiB"]);
    assert!(answer.status == 2 && answer.stderr.contains("embedded fleet's ceilings rise with --memory"), "{answer:?}");
}

#[test]
fn variables_that_are_set_to_nothing_are_not_set() {
    let thermae = Thermae::with("main.py", "print(1)");
    let mut command = thermae.command(&["run", "main.py"]);
    for name in ["THERMAE_AMQP", "THERMAE_TENANT", "THERMAE_PYTHON"] {
        command.env(name, "");
    }
    let answer = crate::thermae::Answer::from(command.output().unwrap());
    assert_eq!((answer.status, answer.stdout.as_str()), (0, "1\n"), "{answer:?}");
    // An option with an empty value is an error, unlike a variable: it is a mistake in a script.
    assert_eq!(thermae.call(&["run", "main.py", "--amqp", ""]).status, 2);
}

#[test]
fn an_interpreter_that_is_none_and_too_few_open_files_are_told_as_that() {
    let answer = run("print(1)", &["--python", "/bin/ls"]);
    assert!(answer.status == 3 && answer.stderr.contains("ls is not a working Python interpreter"), "{answer:?}");
    let thermae = Thermae::with("main.py", "print(1)");
    let inner = thermae.command(&["run", "main.py"]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -n 64; exec \"$0\" run main.py"]).arg(inner.get_program()).current_dir(thermae.path());
    let answer = crate::thermae::Answer::from(shell.output().unwrap());
    assert!(answer.status == 3 && answer.stderr.contains("ulimit -n 256"), "{answer:?}");
}

#[test]
fn a_silent_port_is_left_after_the_time_that_was_given() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("amqp://acme:secret@{}", listener.local_addr().unwrap());
    let answer = run("print(1)", &["--amqp", &url, "--connect-timeout", "1s"]);
    assert!(answer.status == 3 && answer.stderr.contains("error[broker_unreachable]: "), "{answer:?}");
    assert!(answer.stderr.contains("did not answer within 1 s"), "{answer:?}");
}

#[test]
fn a_tool_that_hides_a_function_of_pythons_is_refused() {
    for name in ["input", "print", "ValueError", "tools"] {
        let answer = run("print(1)", &["--tool", &format!("{name}=true")]);
        let why = format!("error[bad_tool]: a tool called {name} would hide Python's own {name} from the code\n");
        assert!(answer.status == 2 && answer.stderr.starts_with(&why), "{answer:?}");
    }
    assert_eq!(run("print(await class_())", &["--tool", "class=echo 1"]).stdout, "1\n");
}

#[test]
fn what_no_fleet_would_take_is_status_2() {
    let language = Thermae::with("main.js", "console.log(1)").call(&["run", "main.js"]);
    assert_eq!(language.status, 2, "{language:?}");
    assert!(language.stderr.starts_with("error[unsupported_language]: "), "{}", language.stderr);
    let limit = run("print(1)", &["--memory", "1000GiB"]);
    assert_eq!(limit.status, 2, "{limit:?}");
    assert!(limit.stderr.starts_with("error[limit_too_high]: "), "{}", limit.stderr);
    let pool = run("print(1)", &["--pool", "nowhere"]);
    assert_eq!(pool.status, 2, "{pool:?}");
    assert!(pool.stderr.starts_with("error[unknown_pool]: "), "{}", pool.stderr);
}

#[test]
fn a_fleet_that_is_not_there_is_status_3() {
    // Nothing listens there.
    let answer = run("print(1)", &["--amqp", "amqp://acme:secret@127.0.0.1:1", "--connect-timeout", "3s"]);
    assert_eq!(answer.status, 3, "{answer:?}");
    assert!(answer.stderr.contains("note: waiting for the fleet at 127.0.0.1:1"), "{}", answer.stderr);
    assert!(answer.stderr.contains("error[broker_unreachable]: "), "{}", answer.stderr);
    assert!(!answer.stderr.contains("secret"), "{}", answer.stderr);
}

#[test]
fn a_machine_without_that_python_is_status_3() {
    let answer = run("print(1)", &["--python", "/nonexistent/python3"]);
    assert_eq!(answer.status, 3, "{answer:?}");
    assert!(
        answer.stderr.contains("/nonexistent/python3") && answer.stderr.contains("thermae doctor"),
        "{}",
        answer.stderr
    );
}

#[test]
fn the_quickstart_prints_its_answer() {
    let thermae = Thermae::new();
    let example = |name: &str| format!("{}/../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    let want = "status 0\n--- stdout\nEast sold most: 71,045.00 of 193,540.00 in all.\n--- stderr\n";
    // Nothing is trusted, as on a new user's machine.
    assert_eq!(thermae.call(&["run", &example("quickstart.py")]).show(), want);
    let (report, tools) = (example("sales/report.py"), example("sales/thermae.toml"));
    assert_eq!(thermae.call(&["run", &report, "--tools-file", &tools]).show(), want);
}
