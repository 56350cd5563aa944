"""Errors of tools: types, data, and what a program sees of them."""

import builtins
import unittest

from support import Case, fail, tool

T = [tool("a.t", alias="t")]
KINDS = {n: k for n, k in vars(builtins).items() if isinstance(k, type) and issubclass(k, BaseException) and n != "ToolError"}
PLAIN = ("StopIteration", "StopAsyncIteration")


def failing(*errors):
    """Answers each call with the error that its argument counts."""
    return lambda process, call: fail(process, call, errors[call["arguments"].get("n", 0)])


class ToolErrors(Case):
    def test_without_a_type_it_is_as_ever(self):
        code = "try:\n    await t()\nexcept ToolError as e:\n    print(repr(e), e.tool, e.type, e.data, vars(e), type(e) is ToolError)"
        shown = "ToolError('m') a.t None None {'tool': 'a.t'} True\n"
        self.assertEqual(self.ok(code, tools=T, answer=failing("m")).out, shown)
        self.assertEqual(self.ok(code, tools=T, answer=failing({"message": "m"})).out, shown)

    def test_every_built_in_exception(self):
        names = sorted(KINDS)
        message = "it's \u00e4\n'x'"
        errors = [{"type": name, "message": message, "data": {"n": [1, 2.5]}} for name in names]
        code = (
            "import builtins, pickle, copy, traceback, warnings\nfor n, name in enumerate(%r):\n"
            "    for call in (t, t.sync):\n"
            "        try:\n            r = call(n=n)\n            await r\n"
            "        except ToolError as e:\n"
            "            kind = getattr(builtins, name)\n"
            "            assert str(e) == %r and e.args == (str(e),), (name, str(e), e.args)\n"
            "            assert (e.tool, e.type, e.data) == ('a.t', name, {'n': [1, 2.5]}), name\n"
            "            both = issubclass(kind, Exception) and name not in %r\n"
            "            assert isinstance(e, kind) is (both or kind is BaseException), name\n"
            "            assert type(e).__name__ == (kind.__name__ if both else 'ToolError'), name\n"
            "            assert (type(e) is ToolError) is not both and type(e).__module__ == 'builtins'\n"
            "            repr(e), traceback.format_exc()\n"
            "            for p in range(pickle.HIGHEST_PROTOCOL + 1):\n"
            "                o = pickle.loads(pickle.dumps(e, p))\n"
            "                assert type(o) is type(e) and str(o) == str(e) and vars(o) == vars(e), (name, p)\n"
            "            assert type(copy.copy(e)) is type(e)\n"
            "            more = type(e)('more')\n"
            "            assert str(more) == 'more' and more.tool is None and more.data is None, name\n"
            "        else:\n            raise AssertionError(name)\nprint('all')"
        )
        outcome = self.ok(code % (names, message, PLAIN), tools=T, answer=failing(*errors))
        self.assertEqual((outcome.out, len(outcome.calls)), ("all\n", 2 * len(names)))

    def test_both_names_catch_it_and_its_class_is_kept(self):
        code = (
            "seen = []\nfor kind in (ToolError, KeyError, LookupError):\n    try:\n        await t()\n"
            "    except kind as e:\n        seen.append(e)\nprint(seen, str(seen[0]), len({type(e) for e in seen}))"
        )
        outcome = self.ok(code, tools=T, answer=failing({"type": "KeyError", "message": "no key"}))
        self.assertEqual(outcome.out, "[KeyError('no key'), KeyError('no key'), KeyError('no key')] no key 1\n")

    def test_it_is_reported_under_the_built_ins_name(self):
        for name in ("ValueError", "KeyError", "FileNotFoundError", "UnicodeDecodeError", "TimeoutError", "SyntaxError"):
            error = {"type": name, "message": "what happened"}
            outcome = self.raised("await t()", name, tools=T, answer=failing(error))
            self.assertEqual(outcome.error["message"], "what happened")
            self.assertTrue(outcome.error["traceback"].endswith("\n%s: what happened\n" % name), outcome.error)
            self.assertNotIn("harness", outcome.error["traceback"])

    def test_a_memory_error_of_a_tool_is_not_the_jobs(self):
        self.raised("await t()", "MemoryError", tools=T, answer=failing({"type": "MemoryError", "message": "there"}))
        session = self.session()
        session.run("await t()", session=True, tools=T, answer=failing({"type": "MemoryError", "message": "there"}))
        self.assertEqual(session.run("raise MemoryError", session=True).how, "memory")

    def test_what_would_end_something_silently_is_a_plain_tool_error(self):
        code = (
            "try:\n    print(list(map(lambda n: t.sync(n=n), [0, 1])))\nexcept ToolError as e:\n    print(type(e), e.type)\n"
            "async def f():\n    yield await t(n=1)\n"
            "try:\n    async for x in f(): pass\nexcept ToolError as e:\n    print(e.type)"
        )
        errors = [{"type": name, "message": "m"} for name in PLAIN]
        outcome = self.ok(code, tools=T, answer=failing(*errors))
        self.assertEqual(outcome.out, "<class 'ToolError'> StopIteration\nStopAsyncIteration\n")
        for name in ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException"):
            self.raised("await t()", "ToolError", tools=T, answer=failing({"type": name, "message": "m"}))

    @unittest.skipUnless(hasattr(builtins, "ExceptionGroup"), "no groups before Python 3.11")
    def test_a_group_has_one_member(self):
        code = (
            "try:\n    await t()\nexcept* ToolError as g:\n    print(repr(g.exceptions))\n"
            "try:\n    await t()\nexcept ExceptionGroup as g:\n    print(str(g), g.exceptions, g.exceptions[0].tool, g.split(ToolError)[1])"
        )
        outcome = self.ok(code, tools=T, answer=failing({"type": "ExceptionGroup", "message": "m"}))
        self.assertIn("ToolError('m')", outcome.out)
        self.assertTrue(outcome.out.endswith("\nm (ToolError('m'),) a.t None\n"), outcome.out)

    def test_hostile_types_and_data(self):
        kinds = ("", "__import__('os')._exit(3)", "ToolError", "int", "object", "print", "a\nb", "ValueError ", "__class__", "x" * 1000000, "\u0000")
        errors = [{"type": kind, "message": "", "data": {"__class__": kind, "__reduce__": [kind] * 3}} for kind in kinds]
        code = (
            "for n, kind in enumerate(%r):\n    try:\n        await t(n=n)\n    except ToolError as e:\n"
            "        assert type(e) is ToolError and e.type == kind and type(e.data) is dict and str(e) == ''\nprint('alive')"
        )
        self.assertEqual(self.ok(code % (kinds,), tools=T, answer=failing(*errors)).out, "alive\n")
        deep = lambda data: {"type": "ValueError", "message": "m", "data": data}

        def answer(process, call):
            import struct

            text = '{"op":"result","call":%d,"error":{"type":"ValueError","message":"m","data":%s}}' % (call["call"], "[" * 100000 + "]" * 100000)
            process.channel.sendall(struct.pack("<I", len(text)) + text.encode())

        outcome = self.raised("await t()", "ToolError", tools=T, answer=answer)
        self.assertIn("can't be read", outcome.error["message"])
        outcome = self.ok("try:\n    await t()\nexcept ValueError as e:\n    print(e.data)", tools=T, answer=failing(deep([None, "\ud800"])))
        self.assertEqual(outcome.out, "[None, '\\ud800']\n")

    def test_a_program_that_changes_the_built_ins_changes_nothing(self):
        code = "import builtins\nbuiltins.ValueError = builtins.UserWarning = None\nawait t()"
        self.raised(code, "ValueError", tools=T, answer=failing({"type": "ValueError", "message": "m"}))

    def test_a_programs_own_subclasses_work_as_ever(self):
        code = (
            "class Mine(ToolError, KeyError):\n    def __init__(self, a, b, c):\n        super().__init__('m' + a)\n"
            "e = Mine('1', '2', c=3)\nprint(repr(e), e.tool, e.type, isinstance(e, KeyError))\nprint(ToolError(), ToolError('m', 't').tool)"
        )
        self.assertEqual(self.ok(code).out, "Mine('m1') None None True\n t\n")

    def test_threads_and_groups_of_calls(self):
        code = (
            "import asyncio\nrs = await asyncio.gather(*(t(n=0) for _ in range(5)), return_exceptions=True)\nprint({type(r) for r in rs}, rs[0].data)\n"
            "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
            "    fs = [pool.submit(t.sync, n=0) for _ in range(9)]\nprint(len({type(f.exception()) for f in fs} | {type(r) for r in rs}))"
        )
        outcome = self.ok(code, tools=T, answer=failing({"type": "OSError", "message": "m", "data": 5}))
        self.assertEqual(outcome.out, "{<class 'OSError'>} 5\n1\n")


if __name__ == "__main__":
    unittest.main()
