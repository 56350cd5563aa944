"""Tools: arguments, results in any order, errors, threads, and loops of the program's own."""

import sys
import unittest

from support import Case, fail, reply, tool

ADD = tool("math.add", ["a", "b"], alias="add", description="Adds.")


def adder(process, call):
    reply(process, call, call["arguments"]["a"] + call["arguments"]["b"])


class Tools(Case):
    def test_ways_to_call(self):
        for call in ("add(a=1, b=2)", "add(1, 2)", "add(1, b=2)", "add({'a': 1, 'b': 2})"):
            outcome = self.ok("await " + call, tools=[ADD], answer=adder)
            self.assertEqual(outcome.value, {"text/plain": "3"}, call)
            self.assertEqual(outcome.calls, [{"op": "call", "call": 1, "name": "math.add", "arguments": {"a": 1, "b": 2}}])

    def test_calls_that_are_not_awaited(self):
        note = "You called add without await, so it did not run: write `await add(...)`."
        for code in ("add(1, 2)", "kept = [add(1, 2)]", "print(add(1, 2))", "def f(): return add(1, 2)\nf()"):
            self.assertEqual(self.fresh(code, tools=[ADD]).done["notes"], [note], code)
        for code in ("await add(1, 2)", "later = add(1, 2)\nawait later", "add.sync(1, 2)", "import asyncio\nasyncio.run(add(1, 2))"):
            self.assertNotIn("notes", self.ok(code, tools=[ADD], answer=adder).done, code)

    @unittest.skipIf(sys.version_info >= (3, 14), "asyncio makes no loop by itself")
    def test_tasks_of_a_loop_that_never_runs(self):
        note = "You made a task of add%s that had not ended when the program did, and was cancelled: await it."
        for code, times in (("asyncio.gather(add(1, 2), add(3, 4))", " 2 times"), ("asyncio.ensure_future(add(1, 2))", "")):
            self.assertEqual(self.fresh("import asyncio\n" + code + "\nprint(1)", tools=[ADD]).done["notes"], [note % times], code)
        code = "import asyncio\nloop = asyncio.new_event_loop()\nasyncio.set_event_loop(loop)\n%s\nloop.run_until_complete(asyncio.gather(add(1, 2)))"
        for first in ("", "loop.run_until_complete(asyncio.ensure_future(add(1, 2)))"):
            self.assertNotIn("notes", self.ok(code % first, tools=[ADD], answer=adder).done, first)

    def test_wrong_ways_to_call(self):
        plain = tool("plain", takes='{"properties": {"a": {"type": "integer"}}}')
        for call, text in (
            ("add(1, 2, 3)", "add() takes 2 positional arguments but 3 were given"),
            ("add(1, a=2)", "add() got multiple values for argument 'a'"),
            ("add({1: 2})", "add() is missing required argument 'b'"),
            ("plain({1: 2})", "argument names must be str"),
            ("plain(**{'a': 1, 'b': 2})", "plain() got unexpected argument 'b'; it takes argument 'a'"),
            ("none(1)", "none() takes 0 positional arguments but 1 was given"),
            ("none(a=1)", "none() got unexpected argument 'a'; it takes none"),
            ("add()", "add() is missing required arguments 'a' and 'b'"),
            ("add(1)", "add() is missing required argument 'b'"),
            ("add(1, 2, c=3)", "add() got unexpected argument 'c'; it takes arguments 'a' and 'b'"),
            ("add(1, 2, **{'c': 3, 'd': 4})", "add() got unexpected arguments 'c' and 'd'; it takes"),
            ("add(a=add, b=2)", "tool math.add: argument a has the type function, which JSON can't express: use text, numbers, lists or dicts"),
            ("add(a={'b': [object()]}, b=2)", "argument a.b[0] has the type object"),
        ):
            outcome = self.raised("await " + call, "TypeError", tools=[ADD, plain, tool("none", [])])
            self.assertIn(text, outcome.error["message"])
            self.assertEqual(outcome.calls, [])
            self.assertNotIn("harness", outcome.error["traceback"])
        for call in ("add(1, float('nan'))", "add(1, '\\udc80')", "add(1, x)"):
            self.raised("x = []; x.append(x)\nawait " + call, "ValueError", tools=[ADD])
        self.raised("await add(1, 'x' * (17 << 20))", "ValueError", tools=[ADD])

    def test_a_lone_dict_is_the_first_argument_or_all_of_them(self):
        import json

        def pay(first, required=("order",), **more):
            takes = {"properties": {"order": first, "note": {"type": "string"}}, "required": list(required), **more}
            return tool("pay", takes=json.dumps(takes), others=more.get("additionalProperties", False))

        order = {"type": "object", "properties": {"n": {"type": "integer"}}}
        reference = {"$ref": "#/$defs/Order"}
        for first, given, more, sent in (
            (order, "{'n': 1}", {}, {"order": {"n": 1}}),
            (order, "{}", {}, {"order": {}}),
            (order, "{'note': 'x'}", {}, {"order": {"note": "x"}}),
            (reference, "{'n': 1}", {"$defs": {"Order": order}}, {"order": {"n": 1}}),
            ({"anyOf": [{"type": "null"}, order]}, "{'n': 1}", {}, {"order": {"n": 1}}),
            ({"type": ["object", "null"]}, "{'n': 1}", {}, {"order": {"n": 1}}),
            ({}, "{'n': 1}", {}, {"order": {"n": 1}}),
            (order, "{1: 2}", {}, {"order": {"1": 2}}),
            (order, "{'order': {}, 'note': 'x'}", {"required": ["order", "note"]}, {"order": {}, "note": "x"}),
            ({"type": "string"}, "{'order': 'a', 'note': 'x'}", {}, {"order": "a", "note": "x"}),
            ({"enum": ["a", 1]}, "{'order': 'a'}", {}, {"order": "a"}),
            ({"enum": ["a", {"order": 1}]}, "{'x': 1}", {}, {"order": {"x": 1}}),
        ):
            outcome = self.ok("await pay(%s)" % given, tools=[pay(first, **more)], answer=lambda p, c: reply(p, c, 1))
            self.assertEqual(outcome.calls[0]["arguments"], sent, (first, given))
        for given, more in (("{'order': {}}", {}), ("{}", {"required": ()}), ("{'order': 1, 'x': 2}", {"additionalProperties": True})):
            outcome = self.raised("await pay(%s)" % given, "TypeError", tools=[pay(order, **more)])
            self.assertIn("pay(): the dict can be the argument 'order' or hold all arguments", outcome.error["message"])
            self.assertEqual(outcome.calls, [])
        for first, required, missing in (({"type": "string"}, ("order",), "order"), (order, ("order", "note"), "note")):
            outcome = self.raised("await pay({'n': 1})", "TypeError", tools=[pay(first, required)])
            self.assertIn("pay() is missing required argument %r" % missing, outcome.error["message"])

    def test_calls_bind_as_python_binds_them(self):
        import json
        import random
        from inspect import Parameter, Signature

        kinds = {"positional_only": Parameter.POSITIONAL_ONLY, "positional_or_keyword": Parameter.POSITIONAL_OR_KEYWORD}
        kinds["keyword_only"] = Parameter.KEYWORD_ONLY
        for seed in range(20):
            chosen = random.Random(seed)
            tools, signatures, calls = [], [], []
            for place in range(20):
                # In no alphabetical order, as many of each kind as there happen to be.
                names = chosen.sample("abcdefgh", chosen.randrange(6))
                found = sorted(chosen.choice(list(kinds)) for _ in names)
                found = [kind for wanted in kinds for kind in found if kind == wanted]
                first_default = chosen.randrange(len(names) + 1)
                required = [n < first_default if kind != "keyword_only" else chosen.random() < 0.5 for n, kind in enumerate(found)]
                params = [{"name": n, "kind": k, "required": r} for n, k, r in zip(names, found, required)]
                others = chosen.random() < 0.2
                tools.append(tool("t%d" % place, params, takes='{"type": "object"}', others=others))
                of_python = [Parameter(p["name"], kinds[p["kind"]], default=Parameter.empty if p["required"] else ...) for p in params]
                of_python += [Parameter("kwargs", Parameter.VAR_KEYWORD)] * others
                signatures.append(Signature(of_python))
                for _ in range(30):
                    given = chosen.sample(names + ["x", "y"], chosen.randrange(len(names) + 1))
                    calls.append((place, [chosen.randrange(9) for _ in range(chosen.randrange(len(names) + 2))], dict.fromkeys(given, 10)))
            code = (
                "import inspect, json\nfound = []\nfor place, args, kwargs in calls:\n    tool = globals()['t%d' % place]\n"
                "    try: found.append(await tool(*args, **kwargs))\n    except TypeError: found.append(None)\n"
                "print(json.dumps([found, [str(inspect.signature(globals()['t%d' % n])) for n in range(20)]]))"
            )
            echo = lambda process, call: reply(process, call, call["arguments"])
            outcome = self.ok(code, tools=tools, inputs={"calls": json.dumps(calls)}, answer=echo)
            found, shown = json.loads(outcome.out)
            self.assertEqual(shown, [str(signature).replace("Ellipsis", "...") for signature in signatures])
            for (place, args, kwargs), bound in zip(calls, found):
                try:
                    wanted = dict(signatures[place].bind(*args, **kwargs).arguments)
                    wanted.update(wanted.pop("kwargs", {}))
                    positional_only = {p["name"] for p in tools[place]["parameters"] if p["kind"] == "positional_only"}
                    # Arguments go by their names: Python would take this one for another than the parameter.
                    wanted = None if positional_only & kwargs.keys() else wanted
                except TypeError:
                    wanted = None
                self.assertEqual(bound, wanted, (seed, str(signatures[place]), args, kwargs))

    def test_a_result_that_python_cannot_read_is_an_error(self):
        import struct

        for text in ("[" * 100000 + "]" * 100000, "1" + "0" * 5000):

            def answer(process, call):
                data = ('{"op":"result","call":%d,"ok":%s}' % (call["call"], text)).encode()
                process.channel.sendall(struct.pack("<I", len(data)) + data)

            code = "try:\n    await add(1, 2)\nexcept ToolError as error:\n    print(error)"
            self.assertIn("the result can't be read: ", self.ok(code, tools=[ADD], answer=answer).out)

    def test_several_at_once_in_any_order(self):
        waiting = []

        def backwards(process, call):
            waiting.append(call)
            if len(waiting) == 50:
                for one in reversed(waiting):
                    adder(process, one)

        code = "import asyncio\nprint(await asyncio.gather(*(add(i, b=1) for i in range(50))))"
        outcome = self.ok(code, tools=[ADD], answer=backwards)
        self.assertEqual(outcome.out, str(list(range(1, 51))) + "\n")
        self.assertEqual([call["call"] for call in outcome.calls], list(range(1, 51)))

    def test_results_in_one_piece_and_in_many(self):
        import json
        import struct

        def whole(process, call):
            data = json.dumps({"op": "result", "call": call["call"], "ok": "x" * 100000}).encode()
            data = struct.pack("<I", len(data)) + data
            for start in range(0, len(data), 40000):
                process.channel.sendall(data[start : start + 40000])

        code = "import asyncio\nprint([len(x) for x in await asyncio.gather(add(1, 1), add(2, 2))])"
        self.assertEqual(self.ok(code, tools=[ADD], answer=whole).out, "[100000, 100000]\n")

    def test_results_that_end_where_a_read_ends(self):
        import json
        import struct

        from harness_channel import PIECE

        bare = len('{"op": "result", "call": 1, "ok": ""}')
        for length in (PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 1):
            value = "x" * (length - 4 - bare)

            def framed(process, call):
                text = json.dumps({"op": "result", "call": call["call"], "ok": value}).encode()
                self.assertEqual(4 + len(text), length)
                process.channel.sendall(struct.pack("<I", len(text)) + text)

            code = "print(len(await add(1, 2)), len(await add(3, 4)))"
            shown = "%d %d\n" % (len(value), len(value))
            self.assertEqual(self.ok(code, tools=[ADD], answer=framed).out, shown)

    def test_results_are_parsed(self):
        answers = {"a": {"k": [1, None, True]}, "b": "text", "c": None}
        code = "print(await a(), await b(), await c())"
        outcome = self.ok(code, tools=list(map(tool, answers)), answer=lambda p, c: reply(p, c, answers[c["name"]]))
        self.assertEqual(outcome.out, "{'k': [1, None, True]} text None\n")

    def test_errors(self):
        code = "try:\n    await add(1, 2)\nexcept ToolError as e:\n    print(type(e).__name__, e, e.tool)\nawait add(1, 2)"
        outcome = self.raised(code, "ToolError", tools=[ADD], answer=lambda p, c: fail(p, c, "no such number"))
        self.assertEqual(outcome.out, "ToolError no such number math.add\n")
        self.assertEqual(outcome.error["message"], "no such number")
        self.assertIn("\nToolError: no such number\n", outcome.error["traceback"])
        self.assertEqual(outcome.error["traceback"].count("  File "), 1, outcome.error["traceback"])

    def test_one_error_among_several(self):
        def answer(process, call):
            (fail if call["arguments"]["a"] == 1 else reply)(process, call, "e%d" % call["call"])

        code = "import asyncio\nprint(await asyncio.gather(add(0, 0), add(1, 0), add(2, 0), return_exceptions=True))"
        outcome = self.ok(code, tools=[ADD], answer=answer)
        self.assertEqual(outcome.out, "['e1', ToolError('e2'), 'e3']\n")

    def test_in_a_loop_of_its_own(self):
        code = (
            "import asyncio\nasync def main():\n    return await asyncio.gather(add(1, 2), add(3, 4))\n"
            "print(asyncio.run(main()))\nprint(asyncio.run(main()))"
        )
        self.assertEqual(self.ok(code, tools=[ADD], answer=adder).out, "[3, 7]\n[3, 7]\n")

    def test_blocking(self):
        self.assertEqual(self.ok("print(add.sync(1, 2), add.sync(a=3, b=4))", tools=[ADD], answer=adder).out, "3 7\n")
        self.raised("add.sync(1, 2)", "ToolError", tools=[ADD], answer=lambda p, c: fail(p, c, "x"))

    def test_blocking_from_threads(self):
        waiting = []

        def backwards(process, call):
            waiting.append(call)
            if len(waiting) == 8:
                for one in reversed(waiting):
                    adder(process, one)

        code = (
            "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool:\n"
            "    print(list(pool.map(lambda i: add.sync(i, 1), range(8))))"
        )
        self.assertEqual(self.ok(code, tools=[ADD], answer=backwards).out, str(list(range(1, 9))) + "\n")

    def test_threads_beside_a_loop(self):
        code = (
            "import asyncio, threading\n"
            "def work(out, i):\n    for k in range(20): out.append(add.sync(i, k))\n"
            "async def other(i):\n    return [await add(i, k) for k in range(20)]\n"
            "outs = [[] for _ in range(4)]\nthreads = [threading.Thread(target=work, args=(o, i)) for i, o in enumerate(outs)]\n"
            "threads.append(threading.Thread(target=lambda: outs.append(asyncio.run(other(4)))))\n"
            "[t.start() for t in threads]\n"
            "mine = await asyncio.gather(*(other(i) for i in range(5)))\n"
            "await asyncio.to_thread(lambda: [t.join() for t in threads])\n"
            "print(mine == outs == [[i + k for k in range(20)] for i in range(5)])"
        )
        self.assertEqual(self.ok(code, tools=[ADD], answer=adder).out, "True\n")

    def test_a_call_never_awaited_warns(self):
        outcome = self.fresh("add(1, 2)\nprint('end')", tools=[ADD])
        self.assertIn("coroutine 'add' was never awaited", outcome.err)
        self.assertEqual((outcome.how, outcome.calls), ("ok", []))

    def test_a_call_that_nobody_waits_for(self):
        code = "import asyncio\nt = asyncio.ensure_future(add(1, 2))\nawait asyncio.sleep(0.01)\nprint('end')"
        self.assertEqual(self.ok(code, tools=[ADD]).out, "end\n")

    def test_cancelled_and_timed_out_calls(self):
        def late(process, call):
            if call["call"] == 2:
                adder(process, {"call": 1, "arguments": {"a": 5, "b": 5}})
                adder(process, call)

        code = (
            "import asyncio\ntry:\n    await asyncio.wait_for(add(1, 2), 0.01)\nexcept asyncio.TimeoutError:\n    print('late')\n"
            "print(await add(3, 4))"
        )
        self.assertEqual(self.ok(code, tools=[ADD], answer=late).out, "late\n7\n")

    def test_introspection(self):
        code = "import inspect\nprint(add.__name__, add.__doc__, add.__module__, inspect.iscoroutinefunction(add), add.sync.__name__)"
        self.assertEqual(self.ok(code, tools=[ADD]).out, "add Adds. __main__ True add.sync\n")

    def test_from_a_module_beside_the_program(self):
        code = "open('helper.py', 'w').write('def f():\\n    raise ToolError(\"x\")')\nimport helper\ntry:\n    helper.f()\nexcept ToolError:\n    print('caught')"
        self.assertEqual(self.ok(code).out, "caught\n")

    def test_forked_children_get_a_clear_error(self):
        code = (
            "import os\npid = os.fork()\nif pid == 0:\n    try:\n        add.sync(1, 2)\n    except ToolError as e:\n        print(e, flush=True)\n    os._exit(0)\n"
            "os.waitpid(pid, 0)\nprint(add.sync(1, 2))"
        )
        outcome = self.ok(code, tools=[ADD], answer=adder)
        self.assertIn("only the job's own process", outcome.out)
        self.assertTrue(outcome.out.endswith("\n3\n"))

    def test_tool_errors_survive_pickling(self):
        code = "import pickle\ne = pickle.loads(pickle.dumps(ToolError('m', 't')))\nprint(repr(e), e.tool)"
        self.assertEqual(self.ok(code).out, "ToolError('m') t\n")

    def test_monkeypatched_libraries(self):
        code = "import json, os\njson.dumps = json.loads = json.JSONDecoder.decode = json.JSONEncoder.encode = None\nos.getpid = None\nprint(await add(1, 2))"
        self.assertEqual(self.ok(code, tools=[ADD], answer=adder).out, "3\n")


if __name__ == "__main__":
    unittest.main()
