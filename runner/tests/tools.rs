//! Tool calls through the job's channel.

mod common;

use common::{Runner, program, raw, session, tool};
use serde_json::json;
use thermae_runner::frames::{End, Run, Tool, ToolFailure};

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
    let documented = Tool {
        description: "Does it.".into(),
        input_schema: Some(takes),
        output_schema: Some(raw(r#"{"type":"string"}"#)),
        ..tool("do.it", &["z", "a"])
    };
    let tools = vec![tool("add", &["a", "b"]), documented];
    let code = "print(x, tools)\nhelp(do_it)\nprint(await do_it(5))";
    let run = Run { tools, inputs: [("x".into(), raw("[1]"))].into(), ..program(code) };
    let run = runner.begin(&run);
    let (_, call) = runner.wait_call();
    assert_eq!(call.arguments.get(), r#"{"z":5}"#);
    runner.answer(run, call.call, Ok(json!("done")));
    let signature = "do_it(z: int = 1180591620717411303424, a=...) -> str";
    let fields = "    z: int (default: 1180591620717411303424)\n    a (optional)";
    assert_eq!(
        runner.wait(run).ok(),
        format!(
            "[1] add(a, b)\n{signature}\n    Does it.\nawait {signature}\n\nDoes it.\n\nParameters:\n{fields}\n\n\
             Returns: str\ndone\n"
        )
    );
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
