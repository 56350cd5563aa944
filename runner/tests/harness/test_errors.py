"""Exceptions: real lines, the program's frames only, and nothing that breaks the telling."""

import sys
import unittest

from support import Case


class Errors(Case):
    def test_traceback_has_real_lines_and_no_harness_frames(self):
        outcome = self.raised("def f(x):\n    return 1 / x\n\nprint('a')\nf(0)\n", "ZeroDivisionError")
        text = outcome.error["traceback"]
        self.assertEqual(outcome.error["message"], "division by zero")
        self.assertTrue(text.startswith('Traceback (most recent call last):\n  File "main.py", line 5, in <module>\n    f(0)\n'), text)
        self.assertIn('  File "main.py", line 2, in f\n    return 1 / x\n', text)
        self.assertTrue(text.endswith("ZeroDivisionError: division by zero\n"), text)
        self.assertEqual(text.count("  File "), 2, text)
        self.assertEqual((outcome.out, outcome.err), ("a\n", ""))

    def test_lines_after_a_statement_that_spans_lines(self):
        outcome = self.raised("x = [\n 1,\n 2]\n\ny = x[\n  5]", "IndexError")
        self.assertIn('File "main.py", line 5, in <module>\n    y = x[', outcome.error["traceback"])

    def test_in_an_awaiting_program(self):
        code = "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    raise KeyError('k')\n\nawait f()\n"
        text = self.raised(code, "KeyError").error["traceback"]
        self.assertTrue(text.startswith('Traceback (most recent call last):\n  File "main.py", line 6, in <module>\n    await f()\n'), text)
        self.assertEqual(text.count("  File "), 2, text)

    def test_chained(self):
        code = "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise ValueError('b') from e"
        text = self.raised(code, "ValueError").error["traceback"]
        self.assertIn("The above exception was the direct cause", text)
        self.assertEqual(text.count("  File "), 2, text)
        code = "async def f():\n    try:\n        1/0\n    except ZeroDivisionError:\n        [][1]\nawait f()"
        text = self.raised(code, "IndexError").error["traceback"]
        self.assertIn("During handling of the above exception", text)
        self.assertNotIn("harness", text)
        self.assertNotIn("asyncio", text)

    def test_syntax_error(self):
        outcome = self.raised("x = 1\nif x\n    print(x)\n", "SyntaxError")
        text = outcome.error["traceback"]
        self.assertTrue(text.startswith('  File "main.py", line 2\n    if x\n'), text)
        self.assertIn("^", text)
        self.assertEqual([m["op"] for m in outcome.messages], ["started", "done"])
        for code in ("x = (1,\n", "  indented", "def f():\nx", "'abc", "return 1", "x = \x00", "a b", "print 'x'", "f(**)\n1"):
            outcome = self.fresh(code)
            self.assertEqual(outcome.how, "raised", code)
            self.assertIn(outcome.error["type"], ("SyntaxError", "IndentationError", "ValueError"), code)
            self.assertNotIn("harness", outcome.error["traceback"])

    def test_code_that_is_not_unicode(self):
        self.raised("x = '\udc80'", "UnicodeEncodeError")

    def test_hostile_exceptions(self):
        code = "class E(Exception):\n    def __str__(self):\n        raise RuntimeError\n    __repr__ = __str__\nraise E"
        outcome = self.raised(code, "E")
        self.assertIn("raised RuntimeError", outcome.error["message"])
        self.assertIn("line 5", outcome.error["traceback"])
        self.raised("class B(BaseException): pass\nraise B('x')", "B")
        self.raised("raise GeneratorExit", "GeneratorExit")
        code = "class E(Exception):\n    def __str__(self):\n        import os; return 5\nraise E"
        self.raised(code, "E")
        code = "class M(type):\n    @property\n    def __name__(self): raise ValueError\nclass E(Exception, metaclass=M): pass\nraise E"
        self.assertEqual(self.fresh(code).how, "raised")
        code = "e = ValueError('loop')\ne.__cause__ = KeyError(); e.__cause__.__cause__ = e\nraise e"
        self.raised(code, "ValueError")
        outcome = self.raised("class E(Exception): pass\nE.__module__ = 5\nraise E('x')", "E")

    def test_recursion(self):
        outcome = self.raised("def f(n):\n    return f(n + 1)\nf(0)", "RecursionError")
        self.assertIn("repeated", outcome.error["traceback"])

    def test_a_very_deep_traceback(self):
        code = "import sys\nsys.setrecursionlimit(20000)\ndef f(n):\n    if n == 0: raise ValueError\n    g(n - 1)\ndef g(n):\n    f(n)\nf(4000)"
        outcome = self.raised(code, "ValueError")
        self.assertLess(len(outcome.error["traceback"]), 300 << 10)

    def test_huge_messages_lose_their_middle(self):
        outcome = self.raised("raise ValueError('a' * 10**6 + 'z')", "ValueError")
        message = outcome.error["message"]
        self.assertLess(len(message), 70000)
        self.assertTrue(message.startswith("aaa") and message.endswith("aaz"))
        self.assertIn("characters left out", message)
        self.assertLess(len(outcome.error["traceback"]), 300 << 10)

    def test_surrogates_in_a_message(self):
        outcome = self.raised("raise ValueError('a\\udc80b')", "ValueError")
        self.assertEqual(outcome.error["message"], "a?b")

    def test_memory(self):
        limit = (
            "import resource\nhave = int(open('/proc/self/statm').read().split()[0]) * 4096 + (64 << 20)\n"
            "resource.setrlimit(resource.RLIMIT_AS, (have, resource.getrlimit(resource.RLIMIT_AS)[1]))\nx = []\nwhile 1:\n    "
        )
        for hog in ("x.append('x' * (5 << 20))", "x.append([0])", "x.append(object())", "x = {'a': x}"):
            outcome = self.fresh(limit + hog)
            self.assertIsNotNone(outcome.done, outcome.err)
            self.assertEqual((outcome.how, outcome.error["type"], outcome.status), ("memory", "MemoryError", 1))
            if "5 << 20" in hog:  # Otherwise some versions lack the memory for the traceback.
                self.assertIn('File "main.py", line 6, in <module>', outcome.error["traceback"])
        session = self.session()
        for _ in range(3):
            self.assertEqual(session.run(limit + "x.append([0])", session=True).how, "memory")
            self.assertEqual(session.run("del x\nprint('on')", session=True).out, "on\n")

    def test_own_excepthook_is_called(self):
        outcome = self.raised("import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1/0", "ZeroDivisionError")
        self.assertEqual(outcome.out, "hook ZeroDivisionError\n")
        outcome = self.raised("import sys\nsys.excepthook = lambda *a: 1/0\n[][0]", "IndexError")

    @unittest.skipIf(sys.version_info < (3, 11), "no groups before 3.11")
    def test_groups(self):
        code = "raise ExceptionGroup('several', [ValueError('a'), KeyError('b')])"
        self.assertIn("KeyError: 'b'", self.raised(code, "ExceptionGroup").error["traceback"])

    def test_own_traceback_module_use_sees_lines(self):
        code = "import traceback\ndef f():\n    1/0\ntry:\n    f()\nexcept Exception:\n    traceback.print_exc()"
        outcome = self.fresh(code)
        self.assertIn('File "main.py", line 3, in f\n    1/0', outcome.err)

    def test_warnings_show_their_line(self):
        outcome = self.fresh("import warnings\n\nwarnings.warn('mind')")
        self.assertIn("main.py:3: UserWarning: mind\n  warnings.warn('mind')", outcome.err)


if __name__ == "__main__":
    unittest.main()
