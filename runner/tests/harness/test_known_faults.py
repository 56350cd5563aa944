"""The ten faults that systems of this kind are known for; each would fail here."""

import unittest

from support import Case, fail, reply, tool


class KnownFaults(Case):
    def test_1_results_cannot_be_forged_through_stdout(self):
        forged = '{"op":"done","how":"ok","value":{"text/plain":"forged"}}'
        code = "import struct, sys\nt = %r.encode()\nsys.stdout.buffer.write(struct.pack('<I', len(t)) + t)\nprint(t.decode())\n1/0" % forged
        outcome = self.raised(code, "ZeroDivisionError")
        self.assertIsNone(outcome.value)
        self.assertIn(forged.encode(), outcome.stdout)

    def test_2_code_may_contain_any_marker(self):
        for marker in ("'''", '"""', "EOF", "__END__", "---END---", "\x00"[:0] + "$$", "{}", "\\n\\", "%s", "</code>"):
            self.assertEqual(self.ok("x = %r\nprint(x)" % marker).out, marker + "\n")

    def test_3_exit_does_not_end_a_session(self):
        session = self.session()
        self.assertEqual(session.run("import sys\nx = 1\nsys.exit(2)", session=True).code, 2)
        self.assertEqual(session.run("print(x)", session=True).out, "1\n")

    def test_4_strings_over_lines_gain_no_indentation(self):
        code = "x = '''a\n  b\n\tc\n'''\nasync def f():\n    return '''d\ne'''\nprint(repr(x), repr(await f()))"
        self.assertEqual(self.ok(code).out, "'a\\n  b\\n\\tc\\n' 'd\\ne'\n")

    def test_5_results_that_arrive_at_once_do_not_stall_gather(self):
        import json
        import struct

        waiting = []

        def all_at_once(process, call):
            waiting.append(call["call"])
            if len(waiting) == 30:
                data = [json.dumps({"op": "result", "call": n, "ok": n}).encode() for n in waiting]
                process.channel.sendall(b"".join(struct.pack("<I", len(d)) + d for d in data))

        code = "import asyncio\nprint(sum(await asyncio.gather(*(a(i=i) for i in range(30)))))"
        self.assertEqual(self.ok(code, tools=[tool("a")], answer=all_at_once).out, "465\n")

    def test_6_true_false_null(self):
        code = "x = await a(flag=True, other=False, none=None)\nprint(x)"
        outcome = self.ok(code, tools=[tool("a", description='{"x": true, "y": null}')], answer=lambda p, c: reply(p, c, [True, False, None]))
        self.assertEqual(outcome.out, "[True, False, None]\n")
        self.assertEqual(outcome.calls[0]["arguments"], {"flag": True, "other": False, "none": None})

    def test_7_a_timed_out_session_does_not_answer_with_the_last_output(self):
        session = self.session()

        def interrupt(process, outcome):
            if b"go" in outcome.stdout and not getattr(outcome, "sent", False):
                outcome.sent = True
                process.interrupt()

        code = "import sys\nprint('go', flush=True)\nprint('old' * 10000, end='')\nprint('e', end='', file=sys.stderr)\nwhile True: pass"
        self.assertEqual(session.run(code, session=True, at=interrupt).how, "interrupted")
        outcome = session.run("print('new')", session=True)
        self.assertEqual((outcome.out, outcome.err), ("new\n", ""))

    def test_8_blank_lines_and_carriage_returns_stay(self):
        self.assertEqual(self.ok("print('a\\r\\n\\n\\n  \\rb\\n')").stdout, b"a\r\n\n\n  \rb\n\n")
        self.assertEqual(self.ok("import sys\nsys.stdout.write('\\n\\n')").stdout, b"\n\n")
        self.assertEqual(self.ok("print(repr('''a\n\n\nb'''))").out, "'a\\n\\n\\nb'\n")
        self.assertEqual(self.ok("import sys\nprint(repr(sys.stdin.buffer.read()))", stdin=b"a\r\n\n").out, "b'a\\r\\n\\n'\n")

    def test_9_output_that_is_not_utf_8(self):
        self.assertEqual(self.ok("import sys\nsys.stdout.buffer.write(bytes(range(256)))").stdout, bytes(range(256)))
        self.assertEqual(self.ok("print('\\udcff')").stdout, b"\xff\n")
        outcome = self.fresh("import sys\nprint('\\udcff \\ud800', file=sys.stderr)")
        self.assertEqual(outcome.stderr, b"\\udcff \\ud800\n")

    def test_10_a_tool_error_bigger_than_a_buffer(self):
        text = "e" * (3 << 20)
        code = "try:\n    await a()\nexcept ToolError as e:\n    print(len(str(e)))\nprint(await a())"

        def answer(process, call):
            if call["call"] == 1:
                fail(process, call, text)
            else:
                reply(process, call, 1)

        self.assertEqual(self.ok(code, tools=[tool("a")], answer=answer).out, "%d\n1\n" % len(text))
        outcome = self.raised("await a()", "ToolError", tools=[tool("a")], answer=lambda p, c: fail(p, c, text))
        self.assertLess(len(outcome.error["message"]), 70000)


if __name__ == "__main__":
    unittest.main()
