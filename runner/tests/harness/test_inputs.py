"""Inputs: JSON values that a program finds as globals."""

import unittest

from support import Case, reply, tool


class Inputs(Case):
    def test_values_are_plain_data(self):
        inputs = {
            "a": '{"b":1,"a":%d,"10":null}' % 2**70,
            "b": "[0.1,1.10,-0,1e2,1e400,123456789012345678901234567890]",
            "c": '"\\u0000\\ud800\\u00e4 \u00e4\U0001f600"',
            "d": " null ",
            "e": "true",
        }
        code = "print(a, type(a).__name__, b, ascii(c), d, e, sep='\\n')\nprint(set(vars()) >= set('abcde'))"
        lines = self.ok(code, inputs=inputs).out.split("\n")
        self.assertEqual(lines[0], "{'b': 1, 'a': %d, '10': None}" % 2**70)
        self.assertEqual(lines[1:3], ["dict", "[0.1, 1.1, 0, 100.0, inf, 123456789012345678901234567890]"])
        self.assertEqual(lines[3:7], ["'\\x00\\ud800\\xe4 \\xe4\\U0001f600'", "None", "True", "True"])

    def test_they_are_there_before_the_first_line(self):
        code = "from __future__ import annotations\nimport asyncio\nasync def f():\n    return x\nprint(await f(), __name__)"
        self.assertEqual(self.ok(code, inputs={"x": "5"}).out, "5 __main__\n")

    def test_in_a_session_they_persist_and_are_bound_anew(self):
        session = self.session()
        run = lambda code, **options: session.run(code, session=True, **options).out
        self.assertEqual(run("print(x, y)", inputs={"x": "[1]", "y": "2"}), "[1] 2\n")
        self.assertEqual(run("print(x, y)\nx.append(2)\ny = 5"), "[1] 2\n")
        self.assertEqual(run("print(x, y)", inputs={"y": '"new"'}), "[1, 2] new\n")

    def test_beside_tools_with_schemas(self):
        tools = [tool("t", takes='{"properties":{"n":{"type":"integer"}}}'), tool("u")]
        code = "print(x, y, await t(n=x), tools.list())"
        outcome = self.ok(code, tools=tools, inputs={"x": "1", "y": '"a"'}, answer=lambda p, c: reply(p, c, c["arguments"]))
        self.assertEqual(outcome.out, "1 a {'n': 1} t(n: int = ...)\nu(**kwargs)\n")

    def test_large_ones(self):
        text = '"' + "x\u00e4" * (8 << 20) + '"'
        outcome = self.ok("print(len(x), x[-1] == '\\xe4', y)", inputs={"x": text, "y": "[" + "7," * 1000000 + "7]"})
        self.assertTrue(outcome.out.startswith("16777216 True [7, 7"))

    def test_what_python_cannot_read_is_an_error_of_the_program(self):
        session = self.session()
        for text in ("[" * 100000 + "]" * 100000, "1" + "0" * 5000):
            outcome = session.run("print('ran')", session=True, inputs={"x": text})
            self.assertEqual((outcome.how, outcome.out), ("raised", ""))
            self.assertEqual(outcome.error["type"], "ValueError")
            self.assertIn("input x can't be read: ", outcome.error["message"])
            self.assertNotIn("harness", outcome.error["traceback"])
            self.assertEqual([message["op"] for message in outcome.messages], ["started", "done"])
        self.assertEqual(session.run("print('x' in vars())", session=True).out, "False\n")

    def test_names_that_nobody_has_checked(self):
        for name in ("", "a b", "class", "1x", "\u212a", "__builtins__", "__name__", "print", "display", "tools", "t", "x" * 100000):
            session = self.session()
            outcome = session.run("1", session=True, inputs={name: '"v"'}, tools=[tool("t")])
            self.assertIn(outcome.how, ("ok", "raised"), name)
            self.assertIn(session.run("2", session=True).how, ("ok", "raised"), name)
        self.assertEqual(self.ok("print(vars()['a b'], tools)", inputs={"a b": "1", "tools": "2"}).out, "1 2\n")

    def test_a_program_without_inputs_has_none(self):
        self.assertEqual(self.ok("print([n for n in vars() if not n.startswith('__')])").out, "['display', 'ToolError']\n")


if __name__ == "__main__":
    unittest.main()
