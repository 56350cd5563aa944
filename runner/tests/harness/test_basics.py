"""Output, values, exits: what every program does."""

import unittest

from support import Case


class Basics(Case):
    def test_prints(self):
        outcome = self.ok("print(1+1)")
        self.assertEqual(outcome.out, "2\n")
        self.assertEqual([m["op"] for m in outcome.messages], ["started", "done"])
        self.assertIsNone(outcome.value)

    def test_the_rehearsal_leaves_no_trace(self):
        code = (
            "import linecache, os, sys\nprint(linecache.getline('main.py', 1), sys.stdout.seekable(), sys.stdin.seekable())\n"
            "print(sorted(set(map(int, os.listdir('/proc/self/fd'))) & set(range(198, 220))))"
        )
        self.assertEqual(self.ok(code).out, "import linecache, os, sys\n False False\n[200]\n")

    def test_an_empty_program(self):
        for code in ("", "\n", "# only a comment", "pass", "   \n\n"):
            self.assertEqual(self.ok(code).out, "")

    def test_value_of_the_last_expression(self):
        for code, text in (
            ("1+1", "2"),
            ("x = 3\nx", "3"),
            ("x = 3; x", "3"),
            ("def f():\n    return 'a'\n\nf()\n\n", "'a'"),
            ("max(\n    1,\n    2,\n)", "2"),
            ('len("""\ndef x\n  """)', "9"),
            ("[1,\n2]  # done\n# end", "[1, 2]"),
            ("'doc'", "'doc'"),
            ("x = 1 \\\n+ 2\nx", "3"),
            ("if True:\n    y = 1\nelse:\n    y = 2\ny", "1"),
            ("x = 5\r\nx\r\n", "5"),
        ):
            self.assertEqual(self.ok(code).value, {"text/plain": text}, code)

    def test_no_value(self):
        for code in ("None", "x = 1", "def f():\n  1", "for i in [1]:\n    i", "if 1:\n  2\nelse:\n  3", "print()", "x = '''\n1\n'''"):
            self.assertIsNone(self.ok(code).value, code)

    def test_exits(self):
        for code, status, text in (
            ("import sys; sys.exit()", 0, ""),
            ("import sys; sys.exit(3)", 3, ""),
            ("import sys; sys.exit(256 + 4)", 4, ""),
            ("import sys; sys.exit(-1)", 255, ""),
            ("import sys; sys.exit('no luck')", 1, "no luck\n"),
            ("raise SystemExit((1, 2))", 1, "(1, 2)\n"),
            ("exit(5)", 5, ""),
            ("quit()", 0, ""),
        ):
            outcome = self.fresh("print('before')\n" + code)
            self.assertEqual((outcome.how, outcome.code, outcome.status), ("exit", status, status), code)
            self.assertEqual((outcome.out, outcome.err), ("before\n", text), code)
            self.assertIsNone(outcome.error)

    def test_os_exit_gives_no_done(self):
        outcome = self.fresh("import os; os._exit(7)")
        self.assertIsNone(outcome.done)
        self.assertEqual(outcome.status, 7)

    def test_stdin(self):
        self.assertEqual(self.ok("print(input(), input())", stdin=b"a b\n\xc3\xa9\n").out, "a b \u00e9\n")
        self.assertEqual(self.ok("import sys; print(repr(sys.stdin.read()))").out, "''\n")
        self.raised("input()", "EOFError")

    def test_environment(self):
        outcome = self.ok("import os, time; print(os.environ['A'], time.localtime(0).tm_hour)", env={"A": "b", "TZ": "UTC-3"})
        self.assertEqual(outcome.out, "b 3\n")


if __name__ == "__main__":
    unittest.main()
