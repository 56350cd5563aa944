"""Exceptions look as under the plain interpreter, which runs the same program from a file."""

import os
import subprocess
import sys
import tempfile
import unittest

from support import Case

RAISED = (
    "import math\nmath.sqr(2)\n",
    "class A:\n    def __init__(self):\n        self.value = 1\nprint(A().valeu)\n",
    "length = 3\nprint(lenght)\n",
    "def f(argument):\n    return argumnet\nf(1)\n",
    "prnt('x')\n",
    "x = None\nx.fooo\n",
    "class E(AttributeError): pass\ntry:\n    ''.uper\nexcept AttributeError as e:\n    raise KeyError(1) from e\n",
    "try:\n    [].apend(1)\nexcept AttributeError:\n    prnt('x')\n",
    "import sys\nsys.exitt(1)\n",
    "def f():\n    print(x)\n    x = 1\nf()\n",
    "import nosuchmodule\n",
    "from math import sqr\n",
    "'a' + 1\n",
    "x = {'a': {'b': None}}\nprint(x['a']['b']['c'])\n",
    "import json\njson.loads('{')\n",
    "raise ValueError('a\\nb')\n",
    "longé = 1\nprint(longè)\n",
    "eval('1 +')\n",
    "exec('def f(:\\n  pass')\n",
    "raise SyntaxError('bad', ('bad.py', 1, 2, 'abcdefg', 1, 100))\n",
    "raise SyntaxError('bad', ('bad.py', 1, 4, 'abcdefg', 1, 3))\n",
)
COMPILED = (
    "return 1\n",
    "print(1)\nreturn 1\nprint(2)\n",
    "def f():\n    x = 1\n    global x\n",
    "x = 1\nbreak\n",
    "def f():\n    nonlocal y\n",
    "def f(a, a):\n    pass\n",
    "from __future__ import nosuch\n",
    "x = 1\nfrom __future__ import annotations\n",
    "x = 1\nfrom __future__ import annotations\ny = 2\n",
    "print(1)\n\x0cfrom __future__ import annotations\n",
    "def f():\n    from __future__ import annotations\n",
    "async def f():\n    yield 1\n    return 2\n",
    "class C:\n    yield 1\n",
    "def f():\n    await g()\n",
    "f() = 1\n",
    "for x in range(3) print(x)\n",
    "x = 'abc\n",
    "  x = 1\n",
    "print 'x'\n",
    "None = 1\n",
    "def f(x=1, y): pass\n",
    "x = 08\n",
    "'\\N{no such name}'\n",
    "é = 1; return é\n",
    "*a, *b = 1\n",
    "del f()\n",
    "x = f'{a b}'\n",
    "import os\nclass A:\n    def f(self):\n        continue\n",
    "__debug__ = 1\n",
)
THREADS = (
    "import threading\ndef f():\n    1/0\nt = threading.Thread(target=f, name='T')\nt.start()\nt.join()\n",
    "import threading\ndef g(value):\n    return value.uper()\ndef f():\n    try:\n        g('')\n    except AttributeError as e:\n        raise ValueError(5) from e\nt = threading.Thread(target=f, name='T')\nt.start()\nt.join()\n",
    "import sys\ntry:\n    ''.uper\nexcept AttributeError:\n    sys.excepthook(*sys.exc_info())\n    sys.__excepthook__(*sys.exc_info())\n",
    "import sys, threading\nt = threading.Thread(target=sys.exit)\nt.start()\nt.join()\n",
)


class Plain(Case):
    def plain(self, code):
        """The exit status and standard error of the plain interpreter, with paths as if the file were in this
        directory."""
        with tempfile.TemporaryDirectory() as room:
            with open(os.path.join(room, "main.py"), "w", encoding="utf-8", newline="") as file:
                file.write(code)
            ended = subprocess.run(
                [sys.executable, "-B", "main.py"], cwd=room, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=dict(os.environ, PYTHONUTF8="1", NO_COLOR="1"),
            )
            return ended.returncode, ended.stderr.decode("utf-8").replace(os.path.realpath(room) + os.sep, "").replace(room + os.sep, "")

    def test_uncaught_exceptions(self):
        for code in RAISED:
            with self.subTest(code):
                self.assertEqual((1, self.fresh(code).error["traceback"]), self.plain(code))

    def test_programs_that_do_not_compile(self):
        for code in COMPILED:
            with self.subTest(code):
                status, expected = self.plain(code)
                outcome = self.fresh(code)
                self.assertEqual((outcome.status, outcome.how), (status, "raised"))
                self.assertEqual(outcome.error["traceback"], expected)

    def test_exceptions_that_others_tell(self):
        for code in THREADS:
            with self.subTest(code):
                self.assertEqual(self.fresh(code).err, self.plain(code)[1])

    def test_a_byte_order_mark(self):
        for code in ("print('é', 1)\n", "print(1)\n1/0\n", "import inspect\ndef f(): pass\nprint(inspect.getsource(f))\n"):
            outcome = self.fresh("\ufeff" + code)
            status, err = self.plain("\ufeff" + code)
            self.assertEqual((outcome.status, (outcome.error or {}).get("traceback", "")), (status, err), code)
            self.assertEqual(outcome.out, self.fresh(code).out)

    def test_hooks_stay_those_of_the_library(self):
        code = (
            "import sys, threading, pickle\nprint(sys.excepthook is sys.__excepthook__, getattr(threading, '__excepthook__', threading.excepthook) is threading.excepthook)\n"
            "for hook in (sys.excepthook, threading.excepthook): print(hook.__name__ in ('excepthook', '_excepthook'))\n"
        )
        self.assertEqual(self.ok(code).out, "True True\nTrue\nTrue\n")
        odd = "import sys\ntry:\n    sys.excepthook(1, '1', 1)\nexcept TypeError: pass\nprint('on')"
        self.assertEqual(self.fresh(odd).out, "on\n")


if __name__ == "__main__":
    unittest.main()
