//! Tool calls through the job's channel.

mod common;

use common::beside::argv;
use common::{Runner, program, raw, session, tool};
use serde_json::json;
use thermae_runner::frames::{ANSWER_WINDOW, End, Frame, Kind, Run, Tool, ToolFailure, ToolResult};

fn with_tools(code: &str) -> Run {
    Run { tools: vec![tool("web.search", &["query"]), tool("add", &["a", "b"])], ..program(code) }
}

#[test]
fn gathered_calls_are_all_out_before_any_answer() {
    let mut runner = Runner::new();
    let code = "import asyncio\nr = await asyncio.gather(*[add(i, 1) for i in range(5)])\nprint(r)";
    let run = runner.begin(&with_tools(code));
    let calls: Vec<_> = (0..5).map(|_| runner.wait_call().1).collect();
    assert_eq!(calls.iter().map(|c| c.call).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    // Answered all at once, in the wrong order.
    for call in calls.iter().rev() {
        assert_eq!(call.name, "add");
        let arguments: serde_json::Value = serde_json::from_str(call.arguments.get()).unwrap();
        runner.answer(run, call.call, Ok(json!(arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap())));
    }
    assert_eq!(runner.wait(run).ok(), "[1, 2, 3, 4, 5]\n");
}

#[test]
fn results_and_errors_of_any_size_arrive() {
    let mut runner = Runner::new();
    let code = "r = await web_search(query='q')\nprint(len(r['text']), r['flag'], r['none'])\ntry:\n    await web_search('q')\nexcept ToolError as e:\n    print(len(str(e)) >= 3_000_000, e.tool)";
    let run = runner.begin(&with_tools(code));
    let (_, call) = runner.wait_call();
    assert_eq!((call.name.as_str(), call.arguments.get()), ("web.search", r#"{"query":"q"}"#));
    runner.answer(run, call.call, Ok(json!({"text": "x".repeat(5_000_000), "flag": true, "none": null})));
    let (_, call) = runner.wait_call();
    runner.answer(run, call.call, Err("e".repeat(3_000_000).into()));
    assert_eq!(runner.wait(run).ok(), "5000000 True None\nTrue web.search\n");
}

#[test]
fn answers_get_credit_once_the_code_has_taken_them() {
    let mut runner = Runner::new();
    runner.run(&session("s", "x = 1")).ok();
    let code = "
import asyncio, os, time
first = asyncio.ensure_future(add(1, 2))
await asyncio.sleep(0)
print('called', flush=True)
while not os.path.exists('go'):
    time.sleep(0.005)
print(len(await first), await add(3, 4))";
    let run = runner.begin(&Run { tools: with_tools("").tools, ..session("s", code) });
    runner.wait_output(run, "called");
    let (_, call) = runner.wait_call();
    let large = 4 * ANSWER_WINDOW;
    runner.answer(run, call.call, Ok(json!("x".repeat(large as usize))));
    runner.ping();
    assert_eq!(runner.so_far(run).credit, 0, "the code has not taken it");
    runner.beside(&argv("s", &["touch", "go"])).ok();
    let (_, call) = runner.wait_call();
    let credit = runner.so_far(run).credit;
    assert!((large..large + 100).contains(&credit), "{credit}");
    runner.answer(run, call.call, Ok(json!("small")));
    let outcome = runner.wait(run);
    assert_eq!((outcome.ok(), outcome.credit), (format!("called\n{large} small\n"), credit));
}

#[test]
fn an_error_with_a_type_is_of_that_type_too() {
    let mut runner = Runner::new();
    let code = "
try:
    await add(1, 2)
except KeyError as e:
    print(repr(e), str(e), isinstance(e, ToolError), e.tool, e.type, e.data)
try:
    await add(1, 2)
except ToolError as e:
    print(repr(e), e.type, e.data)
await add(1, 2)";
    let run = runner.begin(&with_tools(code));
    let failure =
        |kind: &str, message: &str, data| ToolFailure { kind: Some(kind.into()), message: message.into(), data };
    for failure in [
        failure("KeyError", "no \"k\"\n", Some(raw(r#"{"b": 1, "a": 1180591620717411303424}"#))),
        failure("RateLimited", "wait", None),
        failure("MemoryError", "there, not here", None),
    ] {
        let (_, call) = runner.wait_call();
        runner.answer(run, call.call, Err(failure));
    }
    let outcome = runner.wait(run);
    let seen = "KeyError('no \"k\"\\n') no \"k\"\n True add KeyError {'b': 1, 'a': 1180591620717411303424}\n";
    assert_eq!(outcome.out(), format!("{seen}ToolError('wait') RateLimited None\n"));
    assert_eq!(outcome.end(), &End::Raised);
    let error = outcome.exit.unwrap().error.unwrap();
    assert_eq!((error.kind.as_str(), error.message.as_str()), ("MemoryError", "there, not here"));
}

#[test]
fn schemas_reach_the_code_with_their_order_and_digits() {
    let mut runner = Runner::new();
    let takes = raw(r#"{"properties": {"z": {"type": "integer", "default": 1180591620717411303424}, "a": {}}}"#);
    let mut documented = Tool {
        description: "Does it.".into(),
        input_schema: Some(takes),
        output_schema: Some(raw(r#"{"type":"string"}"#)),
        ..tool("do.it", &["z", "a"])
    };
    documented.parameters.iter_mut().for_each(|parameter| parameter.required = false);
    let tools = vec![tool("add", &["a", "b"]), documented];
    let code = "print(x, tools)\nhelp(do_it)\nprint(await do_it(5))";
    let run = Run { tools, inputs: [("x".into(), raw("[1]"))].into(), ..program(code) };
    let run = runner.begin(&run);
    let (_, call) = runner.wait_call();
    assert_eq!(call.arguments.get(), r#"{"z":5}"#);
    runner.answer(run, call.call, Ok(json!("done")));
    let signature = "do_it(z: int = 1180591620717411303424, a=...) -> str";
    let shown = format!("{signature}\n    Does it.\nasync def {signature}:\n    \"\"\"Does it.\"\"\"\n");
    assert_eq!(runner.wait(run).ok(), format!("[1] add(a, b)\n{shown}done\n"));
}

#[test]
fn an_undeclared_tool_is_answered_by_the_runner() {
    let mut runner = Runner::new();
    // Sent directly on the channel, as a program could try.
    let code = "
import json, os, socket, struct
fd = max(int(f) for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f) and int(f) < 4096 and os.readlink('/proc/self/fd/' + f).startswith('socket:'))
s = socket.socket(fileno=fd)
m = json.dumps({'op': 'call', 'call': 1, 'name': 'secret', 'arguments': {}}).encode()
s.sendall(struct.pack('<I', len(m)) + m)
n = struct.unpack('<I', s.recv(4))[0]
print(s.recv(n).decode())
s.detach()
";
    let outcome = runner.run(&with_tools(code)).ok();
    let answer: serde_json::Value = serde_json::from_str(&outcome).unwrap();
    assert_eq!(answer["call"], 1);
    assert!(answer["error"].as_str().unwrap().contains("no such tool"), "{answer}");
}

#[test]
fn rubbish_on_the_channel_ends_the_run_and_nothing_else() {
    let mut runner = Runner::new();
    for rubbish in [
        "b'\\x05\\0\\0\\0hello'",
        "b'\\xff\\xff\\xff\\xff'",
        "struct.pack('<I', 2) + b'{}'",
        "struct.pack('<I', 13) + b'{\"op\":\"ready\"}'",
        "b'\\x02\\0\\0\\0[]' * 9",
    ] {
        let code = format!(
            "import os, struct, time\nfor f in range(3, 300):\n    try: os.write(f, {rubbish})\n    except OSError: pass\ntime.sleep(60)"
        );
        let outcome = runner.run(&with_tools(&code));
        assert_eq!(outcome.end(), &End::Raised, "{rubbish}");
        assert_eq!(outcome.exit.unwrap().error.unwrap().kind, "ChannelError");
    }
    assert_eq!(runner.python("print(1)").ok(), "1\n");
}

#[test]
fn a_job_that_does_not_read_its_results_blocks_nobody() {
    let mut runner = Runner::new();
    let code = "import asyncio, time\nts = [asyncio.ensure_future(add(1, 2)) for _ in range(20)]\nawait asyncio.sleep(0)\ntime.sleep(60)";
    let run = runner.begin(&with_tools(code));
    for _ in 0..20 {
        let (_, call) = runner.wait_call();
        runner.answer(run, call.call, Ok(json!("x".repeat(2_000_000))));
    }
    assert_eq!(runner.python("print('free')").ok(), "free\n");
    runner.send(&thermae_runner::frames::Frame::raw(thermae_runner::frames::Kind::Kill, run, Vec::new()));
    assert_eq!(runner.wait(run).end(), &End::Killed);
}

#[test]
fn late_results_of_one_run_do_not_reach_the_next() {
    let mut runner = Runner::new();
    let ask = |code: &str| Run { tools: vec![tool("add", &["a", "b"])], ..session("l", code) };
    let first = runner.begin(&ask("import asyncio\nt = asyncio.ensure_future(add(1, 1))\nawait asyncio.sleep(0)"));
    let (_, call) = runner.wait_call();
    runner.wait(first);
    runner.answer(first, call.call, Ok(json!("stale")));
    let second = runner.begin(&ask("print(await add(2, 2))"));
    let (number, call) = runner.wait_call();
    assert_eq!(number, second);
    runner.answer(first, call.call, Ok(json!("staler")));
    runner.answer(second, call.call, Ok(json!("fresh")));
    assert_eq!(runner.wait(second).ok(), "fresh\n");
}

#[test]
fn a_run_behind_results_that_nobody_read_has_its_output() {
    let mut runner = Runner::new();
    let ask = |code: &str| Run { tools: vec![tool("add", &["a", "b"])], ..session("b", code) };
    // The event loop is kept from reading, so most of the result waits in the runner when the code ends.
    let deaf = "import asyncio, time\nt = asyncio.ensure_future(add(1, 1))\nawait asyncio.sleep(0)\ntime.sleep(0.5)";
    let first = runner.begin(&ask(deaf));
    let second = runner.begin(&ask("print('mine')"));
    let (_, call) = runner.wait_call();
    runner.answer(first, call.call, Ok(json!("x".repeat(8 << 20))));
    runner.wait(first).ok();
    assert_eq!(runner.wait(second).ok(), "mine\n");
}

/// What a run's notes are, with every call of a tool answered with 7.
fn notes_of(runner: &mut Runner, run: &Run, calls: usize) -> Vec<String> {
    let number = runner.begin(run);
    for _ in 0..calls {
        let (_, call) = runner.wait_call();
        runner.answer(number, call.call, Ok(json!(7)));
    }
    runner.wait(number).exit.unwrap().notes
}

fn forgot(name: &str, times: &str) -> String {
    format!("You called {name} without await{times}, so it did not run: write `await {name}(...)`.")
}

#[test]
fn a_call_without_await_is_noted() {
    let mut runner = Runner::new();
    for code in [
        "print(add(1, 2))",
        "add(1, 2)",
        "total = add(1, 2)\nprint(total)",
        "def total():\n    return add(1, 2)\nprint(total())",
        "add(1, 2) + 1",
        "def total():\n    found = add(1, 2)\n    return found['total']\ntotal()",
        "kept = {'total': add(1, 2)}",
        "try:\n    add(1, 2) + 1\nexcept TypeError as error:\n    kept = error",
        "import asyncio\nasync def main():\n    add(1, 2)\nasyncio.run(main())",
        "import warnings\nwarnings.simplefilter('ignore')\nadd(1, 2)\nraise SystemExit(0)",
        "import warnings\nwarnings.simplefilter('error')\nadd(1, 2)",
    ] {
        assert_eq!(notes_of(&mut runner, &with_tools(code), 0), [forgot("add", "")], "{code}");
    }
    let code = "kept = [add(n, n) for n in range(3)]\nprint(web_search('q'))\nasync def main(): pass\nmain()";
    let mut notes = notes_of(&mut runner, &with_tools(code), 0);
    notes.sort();
    assert_eq!(notes, [forgot("add", " 3 times"), forgot("main", ""), forgot("web_search", "")]);
    // Python's own warning is what it is elsewhere.
    for (code, place) in [("\nadd(1, 2)\npass", "main.py:2"), ("add(1, 2)", "sys:1")] {
        let outcome = runner.run(&with_tools(code));
        let errors = String::from_utf8_lossy(&outcome.stderr);
        let warning = format!("{place}: RuntimeWarning: coroutine 'add' was never awaited\n");
        assert!(errors.contains(&warning), "{errors}");
    }
}

#[test]
fn a_call_that_is_awaited_somehow_is_not_noted() {
    let mut runner = Runner::new();
    for (calls, code) in [
        (1, "await add(1, 2)"),
        (1, "later = add(1, 2)\nawait later"),
        (2, "import asyncio\nawait asyncio.gather(add(1, 2), add(3, 4))"),
        (1, "import asyncio\ntask = asyncio.create_task(add(1, 2))\nawait task"),
        (1, "import asyncio\nawait asyncio.wait_for(add(1, 2), 60)"),
        (1, "import asyncio\nasync def main():\n    return await add(1, 2)\nasyncio.run(main())"),
        (1, "import asyncio\nasyncio.run(add(1, 2))"),
        (
            2,
            "import asyncio\nasync with asyncio.TaskGroup() as group:\n    [group.create_task(add(n, n)) for n in (1, 2)]",
        ),
        (1, "add.sync(1, 2)"),
        (0, "add(1, 2).close()"),
        (0, "print(add, tools)"),
    ] {
        assert_eq!(notes_of(&mut runner, &with_tools(code), calls), [""; 0], "{code}");
    }
}

#[test]
fn a_sessions_coroutine_is_noted_once() {
    let mut runner = Runner::new();
    let ask = |code: &str| Run { tools: vec![tool("add", &["a", "b"])], ..session("f", code) };
    let mut notes = |code: &str, calls| notes_of(&mut runner, &ask(code), calls);
    assert_eq!(notes("kept = add(1, 2)", 0), [forgot("add", "")]);
    assert_eq!(notes("print(1)", 0), [""; 0]);
    assert_eq!(notes("again = add(1, 2)", 0), [forgot("add", "")]);
    assert_eq!(notes("del kept", 0), [""; 0]);
    assert_eq!(notes("await again", 1), [""; 0]);
    assert_eq!(
        notes("import asyncio\ntask = asyncio.get_event_loop().create_task(add(1, 2))\nawait asyncio.sleep(0)", 1),
        [""; 0]
    );
}

#[test]
fn notes_are_bounded_whatever_the_program_says() {
    let mut runner = Runner::new();
    let code = "
import sys
frame = sys._getframe()
while type(own := frame.f_locals.get('self')).__name__ != 'Harness':
    frame = frame.f_back
own.forgotten.counts = {chr(233) * 1000 + str(n): 1 for n in range(100)}
";
    let notes = runner.run(&with_tools(code)).exit.unwrap().notes;
    assert_eq!((notes.len(), notes.iter().map(String::len).max().unwrap()), (16, 511));
}

#[test]
fn synchronous_tools_give_their_results() {
    let mut runner = Runner::new();
    let sync = |code: &str| Run { sync_tools: true, ..with_tools(code) };
    let code = "
import inspect
from concurrent.futures import ThreadPoolExecutor
print(add(1, 2) + 1, add.sync(a=1, b=2), inspect.iscoroutinefunction(add), add.__name__)
with ThreadPoolExecutor(2) as pool:
    print(list(pool.map(add, [1, 2], [3, 4])))
print(tools.describe('add').splitlines()[0], inspect.signature(add))
";
    let number = runner.begin(&sync(code));
    for _ in 0..4 {
        let (_, call) = runner.wait_call();
        runner.answer(number, call.call, Ok(json!(7)));
    }
    let outcome = runner.wait(number);
    assert_eq!(outcome.ok(), "8 7 False add\n[7, 7]\ndef add(a, b): (a, b)\n");
    assert_eq!(outcome.exit.unwrap().notes, [""; 0]);
}

#[test]
fn a_thread_that_is_left_in_a_tool_reads_nothing_of_the_next_run() {
    let mut runner = Runner::new();
    let code = "
import threading
threading.Thread(target=lambda: add.sync(0, 0), daemon=True).start()
print(add.sync(1, 1))
";
    for _ in 0..20 {
        let run = runner.begin(&Run { tools: with_tools("").tools, ..session("s", code) });
        // The run does not end before the thread has called.
        let calls = [runner.wait_call().1, runner.wait_call().1];
        let mine = calls.iter().find(|call| call.arguments.to_string().contains('1')).expect("the program's call");
        runner.answer(run, mine.call, Ok(json!(7)));
        assert_eq!(runner.wait(run).ok(), "7\n");
    }
}

#[test]
fn a_raw_tools_answers_are_text_as_it_was_written() {
    let mut runner = Runner::new();
    let digits = "7".repeat(5_000); // More than Python reads as a number.
    let answers = [
        (r#"{"k": [1,  1.10], "a": 1E3}"#, r#"{"k": [1,  1.10], "a": 1E3}"#),
        ("123456789012345678901234567890.10", "123456789012345678901234567890.10"),
        (r#""te\u0078t""#, "text"),
        (&digits, &digits),
        ("null", "null"),
    ];
    let text = Tool { raw: true, ..tool("text", &[]) };
    let code = format!("for _ in range({}):\n    print(await text())", answers.len());
    let run = runner.begin(&Run { tools: vec![text], ..program(&code) });
    for (answer, _) in answers {
        let (_, call) = runner.wait_call();
        let result = ToolResult { call: call.call, result: Ok(raw(answer)) };
        runner.send(&Frame::json(Kind::ToolResult, run, &result).unwrap());
    }
    assert_eq!(runner.wait(run).ok(), answers.map(|(_, text)| format!("{text}\n")).concat());
}

#[test]
fn a_hidden_tool_is_not_listed_and_its_calls_are_the_workers_to_refuse() {
    let mut runner = Runner::new();
    let hidden = Tool { hidden: true, ..tool("secret.pay", &["n"]) };
    let code = "
print([one.name for one in tools.list()], len(tools), 'secret_pay' in tools, tools.search('pay'))
try:
    await secret_pay(1)
except ToolError as error:
    print(error)
";
    let number = runner.begin(&Run { tools: vec![tool("add", &["a", "b"]), hidden], ..program(code) });
    let (_, call) = runner.wait_call();
    assert_eq!(call.name, "secret.pay");
    runner.answer(number, call.call, Err("refused".into()));
    assert_eq!(runner.wait(number).ok(), "['add'] 1 False []\nrefused\n");
}
