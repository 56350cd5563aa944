"""The end of a program as Python has it: threads, `atexit`, last references, children, other processes."""

import os
import unittest

from support import Case


class Ends(Case):
    def test_threads_are_joined_then_atexit_runs_then_references_go(self):
        code = (
            "import atexit, threading\nclass D:\n    def __del__(self): print('del')\nd = D()\n"
            "go = threading.Event()\natexit.register(lambda: print('atexit'))\nthreading.Thread(target=lambda: (go.wait(), print('thread'))).start()\nprint('main')\ngo.set()"
        )
        self.assertEqual(self.ok(code).out, "main\nthread\natexit\ndel\n")

    def test_after_an_error_too(self):
        outcome = self.raised("import atexit\natexit.register(print, 'atexit')\n1/0", "ZeroDivisionError")
        self.assertEqual(outcome.out, "atexit\n")
        outcome = self.fresh("import atexit, sys\natexit.register(print, 'atexit')\nsys.exit(2)")
        self.assertEqual((outcome.how, outcome.code, outcome.out), ("exit", 2, "atexit\n"))

    def test_what_the_library_does_at_the_end(self):
        for code in (
            "import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, 'end')",
            "import logging, logging.handlers, sys\nlogging.getLogger().addHandler(logging.handlers.MemoryHandler(10, target=logging.StreamHandler(sys.stdout)))\nlogging.warning('end')",
            "import threading\nthreading._register_atexit(print, 'end')",
            "import tempfile, atexit\nd = tempfile.TemporaryDirectory()\natexit.register(print, 'end')",
        ):
            self.assertEqual(self.fresh(code).out, "end\n", code)

    def test_atexit_that_fails(self):
        outcome = self.fresh("import atexit\natexit.register(lambda: 1/0)\natexit.register(lambda: exit(5))\nprint('a')")
        self.assertEqual((outcome.how, outcome.status, outcome.out), ("ok", 0, "a\n"))
        self.assertIn("ZeroDivisionError", outcome.err)

    def test_daemon_threads_do_not_hold_it(self):
        self.ok("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()")

    def test_a_thread_that_raises(self):
        outcome = self.fresh("import threading\ndef f(): 1/0\nthreading.Thread(target=f).start()")
        self.assertEqual(outcome.how, "ok")
        self.assertIn('File "main.py", line 2, in f', outcome.err)

    def test_files_left_open_are_written(self):
        code = "import zipfile\nf = open('a.txt', 'w')\nf.write('kept')\nz = zipfile.ZipFile('b.zip', 'w')\nz.writestr('n', 'zipped')"
        process = self.process()
        self.assertEqual(process.run(code).how, "ok")
        with open(os.path.join(process.room, "a.txt")) as file:
            self.assertEqual(file.read(), "kept")
        import zipfile

        self.assertEqual(zipfile.ZipFile(os.path.join(process.room, "b.zip")).read("n"), b"zipped")

    def test_executors(self):
        code = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor()\npool.submit(print, 'pooled')"
        self.assertEqual(self.ok(code).out, "pooled\n")

    def test_output_without_a_newline_and_of_a_child_first(self):
        self.assertEqual(self.ok("import sys\nsys.stdout.write('no end')").out, "no end")
        self.assertEqual(self.ok("import subprocess, sys\nprint('a', flush=True)\nsubprocess.run(['echo', 'b'])").out, "a\nb\n")


class Children(Case):
    def test_subprocess(self):
        self.assertEqual(self.ok("import subprocess\nprint(subprocess.check_output(['echo', 'hi'], text=True))").out, "hi\n\n")

    def test_the_channel_is_high_and_not_inherited(self):
        self.assertEqual(self.ok("import os\nprint(os.get_inheritable(200))").out, "False\n")

    def test_multiprocessing(self):
        code = "import multiprocessing as mp\ndef f(x): return x * x\nif __name__ == '__main__':\n    with mp.get_context('%s').Pool(2) as pool:\n        print(pool.map(f, [1, 2, 3]))"
        for method in ("fork", "spawn"):
            self.assertEqual(self.fresh(code % method).out, "[1, 4, 9]\n", method)
        code = "import multiprocessing as mp\ndef f(q): q.put('x')\nq = mp.get_context('fork').Queue()\np = mp.get_context('fork').Process(target=f, args=(q,))\np.start()\nprint(q.get())\np.join()\nprint(p.exitcode)"
        self.assertEqual(self.ok(code).out, "x\n0\n")

    def test_processes_still_running_are_joined(self):
        code = "import multiprocessing as mp\ndef f(): print('child')\nmp.get_context('fork').Process(target=f).start()"
        self.assertEqual(self.ok(code).out, "child\n")

    def test_a_forked_child_that_falls_through(self):
        outcome = self.ok("import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\nprint('child' if pid == 0 else 'parent')")
        self.assertEqual(outcome.out, "child\nparent\n")
        self.assertEqual([m["op"] for m in outcome.messages], ["started", "done"])

    def test_a_forked_child_that_raises_or_exits(self):
        code = "import os\npid = os.fork()\nif pid == 0:\n    %s\nprint(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))"
        outcome = self.fresh(code % "1/0")
        self.assertEqual((outcome.how, outcome.out), ("ok", "1\n"))
        self.assertIn("ZeroDivisionError", outcome.err)
        self.assertEqual(self.fresh(code % "exit(9)").out, "9\n")

    def test_a_forked_child_of_a_coroutine(self):
        code = "import os, asyncio\nawait asyncio.sleep(0)\npid = os.fork()\nif pid == 0:\n    os._exit(3)\nprint(os.waitpid(pid, 0)[1] >> 8)"
        self.assertEqual(self.ok(code).out, "3\n")

    def test_asyncio_subprocess(self):
        code = "import asyncio\np = await asyncio.create_subprocess_exec('echo', 'hi', stdout=asyncio.subprocess.PIPE)\nprint((await p.communicate())[0])"
        self.assertEqual(self.ok(code).out, "b'hi\\n'\n")


if __name__ == "__main__":
    unittest.main()
