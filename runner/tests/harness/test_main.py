"""`__main__` is the program's: what it holds, and what the library finds in it."""

import unittest

from support import Case, tool


class Main(Case):
    def test_globals_are_those_of_python(self):
        outcome = self.ok("print(sorted(globals()))", tools=[tool("search")])
        expected = "ToolError __annotations__ __builtins__ __cached__ __doc__ __file__ __loader__ __name__ __package__ __spec__ display search"
        self.assertEqual(outcome.out, str(expected.split()) + "\n")

    def test_name_and_file(self):
        code = "import sys, os\nif __name__ == '__main__':\n    print(__name__, os.path.basename(__file__), os.path.dirname(__file__) == os.getcwd(), sys.argv, sys.path[0] == os.getcwd())"
        self.assertEqual(self.ok(code).out, "__main__ main.py True ['main.py'] True\n")
        self.assertEqual(self.ok("import __main__\nx = 5\nprint(__main__.x, __main__ is __import__('sys').modules['__main__'])").out, "5 True\n")

    def test_the_harness_is_out_of_the_way(self):
        self.assertEqual(self.ok("open('harness.py', 'w').close()\nimport harness, os\nprint(os.path.dirname(harness.__file__) == os.getcwd())").out, "True\n")

    def test_pickle_inspect_dataclasses_doctest(self):
        code = '''
import dataclasses, doctest, inspect, pickle, typing

@dataclasses.dataclass
class Point:
    """A point.

    >>> Point(1, 2).x
    1
    >>> 1 + 1
    3
    """
    x: int
    y: "typing.Optional[Point]" = None

def f(a):
    return a  # comment

print(pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2))
print(inspect.getsource(f))
print(inspect.getsource(Point).startswith("@dataclasses.dataclass"), inspect.getsourcefile(f))
print(typing.get_type_hints(Point)["y"] == typing.Optional[Point])
out = []
print(doctest.testmod(report=False))
'''
        out = self.fresh(code).out
        self.assertTrue(out.startswith("True\ndef f(a):\n    return a  # comment\n\nTrue main.py\nTrue\n"), out)
        self.assertIn('main.py", line 10, in __main__.Point\nFailed example:', out)
        self.assertIn("TestResults(failed=1, attempted=2)", out)

    def test_the_program_is_a_file(self):
        for code in (
            "print(open(__file__).read(), end='')  # as it is: \u00fc\r\n",
            "# -*- coding: latin-1 -*-\nprint(open(__file__, encoding='latin-1', newline='').read(), end='')  # \u00fc",
            "print(open(__file__).read(), end='')  # " + "x" * 300000,
        ):
            self.assertEqual(self.fresh(code).out, code.replace("\r\n", "\n") if "latin" not in code else code)
        guard = "if __name__ == '__main__':\n    "
        for code, out in (
            ("V = 3\n" + guard + "import main\n    print(main.V)", "3\n"),
            ("import runpy\nV = 5\n" + guard + "print(runpy.run_path(__file__, run_name='x')['V'])", "5\n"),
            ("import subprocess, sys\nif len(sys.argv) > 1: print('child')\nelse: print(subprocess.run([sys.executable, __file__, 'x'], capture_output=True, text=True).stdout, end='')", "child\n"),
            ("import os, sys\nif 'AGAIN' not in os.environ:\n    os.environ['AGAIN'] = '1'\n    print(os.popen(sys.executable + ' ' + sys.argv[0]).read(), end='')\nelse: print('second')", "second\n"),
            ("import os, sys\nif 'AGAIN' not in os.environ:\n    os.environ['AGAIN'] = '1'\n    print(os.popen(' '.join(sys.orig_argv)).read(), end='')\nelse: print('third')", "third\n"),
            ("import linecache, os\nos.chdir('/')\nlinecache.clearcache()\nprint(linecache.getline('main.py', 2, globals()), __loader__.get_source('__main__') == open(__file__).read())", "os.chdir('/')\n True\n"),
            ("import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n" + guard + "print(unittest.TestLoader().discover('.', pattern='main*.py').countTestCases())", "1\n"),
            ("import os\nprint(os.listdir())", "['main.py']\n"),
            ("import importlib.util as u\nV = 4\n" + guard + "s = u.spec_from_file_location('me', __file__); m = u.module_from_spec(s); s.loader.exec_module(m); print(m.V)", "4\n"),
            ("import py_compile\nprint(py_compile.compile(__file__, cfile='x.pyc'))", "x.pyc\n"),
            ("import asyncio\nawait asyncio.sleep(0)\nprint(len(open(__file__).readlines()))", "3\n"),
        ):
            self.assertEqual(self.fresh(code).out, out, code)

    def test_a_session_has_a_file_for_each_program(self):
        session = self.session()
        session.run("def f(): return 1", session=True)
        code = "import inspect, os, sys\nprint(os.path.basename(__file__), sys.argv, open(__file__).read()[:6])"
        self.assertEqual(session.run(code, session=True).out, "main_2.py ['main_2.py'] import\n")
        code = "print(sys.orig_argv == [sys.executable, 'main_3.py'], __loader__.path == __file__)"
        self.assertEqual(session.run(code, session=True).out, "True True\n")
        self.assertEqual(session.run("print(os.path.exists(f.__code__.co_filename), inspect.getsource(f))", session=True).out, "True def f(): return 1\n\n")
        tests = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
        found = session.run(tests + "if __name__ == '__main__': print(unittest.TestLoader().discover('.', pattern='main_5.py').countTestCases())", session=True)
        self.assertEqual(found.out, "1\n")

    def test_unittest_main(self):
        code = "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\nif __name__ == '__main__':\n    unittest.main()"
        outcome = self.fresh(code)
        self.assertEqual((outcome.how, outcome.code), ("exit", 0))
        self.assertIn("Ran 1 test", outcome.err)

    def test_annotations_at_top_level(self):
        self.assertEqual(self.ok("x: int = 1\ny: str\nprint(__annotations__)").out, "{'x': <class 'int'>, 'y': <class 'str'>}\n")

    def test_futures_reach_every_part(self):
        self.assertEqual(self.ok("from __future__ import annotations\ndef f(x: nowhere): pass\nx: alsonowhere = 1\nprint(f.__annotations__)").out, "{'x': 'nowhere'}\n")

    def test_top_level_await(self):
        for code, out in (
            ("import asyncio\nprint(await asyncio.sleep(0, 1))", "1\n"),
            ("import asyncio\nx = await asyncio.sleep(0, 1)\nprint(x)", "1\n"),
            ("import asyncio\nasync def g():\n    for i in range(3): yield i\nprint([i async for i in g()])", "[0, 1, 2]\n"),
            ("async def g():\n    yield 1\nasync for i in g():\n    print(i)\n", "1\n"),
            ("class C:\n    async def __aenter__(self): return 5\n    async def __aexit__(self, *a): print('out')\nasync with C() as c:\n    print(c)", "5\nout\n"),
            ("import asyncio\nif True:\n    await asyncio.sleep(0)\nelse:\n    pass\nprint('x')", "x\n"),
            ("import asyncio\nfor i in range(2):\n    await asyncio.sleep(0)\n    print(i)", "0\n1\n"),
        ):
            self.assertEqual(self.ok(code).out, out, code)
        self.assertEqual(self.ok("import asyncio\nawait asyncio.sleep(0, 7)").value, {"text/plain": "7"})

    def test_asyncio_starts_alike_with_and_without_top_level_await(self):
        begin = "import asyncio\nasync def f(n=5):\n    await asyncio.sleep(0)\n    return n\n"
        for code in ("print(asyncio.run(f()))", "loop = asyncio.new_event_loop()\nprint(loop.run_until_complete(f()))"):
            self.assertEqual(self.ok(begin + code).out, "5\n", code)
            self.assertEqual(self.ok(begin + "await f()\n" + code + "\nprint(await f(6))").out, "5\n6\n", code)
        for code in ("task = asyncio.create_task(f())", "await f()\ntask = asyncio.create_task(f())"):
            outcome = self.ok(begin + code + "\nprint(task.done())")
            self.assertEqual(outcome.out, "False\n", code)
            note = "You made a task of f that had not ended when the program did, and was cancelled: await it."
            self.assertEqual(outcome.done["notes"], [note], code)

    def test_tasks_left_at_the_end_are_cancelled(self):
        code = (
            "import asyncio\nasync def f():\n    try:\n        await asyncio.sleep(1000)\n    except asyncio.CancelledError:\n        print('cancelled')\n        raise\n"
            "asyncio.ensure_future(f())\nawait asyncio.sleep(0)"
        )
        self.assertEqual(self.ok(code).out, "cancelled\n")

    def test_builtins_of_site(self):
        self.assertEqual(self.ok("print(callable(exit), callable(quit), callable(display))").out, "True True True\n")

    def test_a_program_that_names_a_variable_like_a_tool(self):
        self.assertEqual(self.ok("search = 5\nprint(search)", tools=[tool("search")]).out, "5\n")


if __name__ == "__main__":
    unittest.main()
