"""Sessions: state stays, runs do not mix, and nothing but the process's end ends one."""

import os
import time
import unittest

from support import Case, fail, reply, tool


class Sessions(Case):
    def run_in(self, session, code, **options):
        return session.run(code, session=True, **options)

    def test_variables_stay(self):
        session = self.session()
        self.assertEqual(self.run_in(session, "x = 41\nimport math\ndef f(): return x + 1\nprint('a')").out, "a\n")
        outcome = self.run_in(session, "print(f(), math.pi)\nf()")
        self.assertEqual((outcome.out, outcome.value), ("42 3.141592653589793\n", {"text/plain": "42"}))
        self.assertEqual([m["op"] for m in outcome.messages], ["started", "done"])

    def test_a_reader_of_the_last_run_takes_nothing_from_this_one(self):
        session = self.session()
        code = """
import threading, time
channel = next(one.cell_contents for one in add.sync.__closure__ if hasattr(one.cell_contents, "ask_sync"))
block, go = channel.waits.block, threading.Event()
def late(wait):
    return go.wait() if threading.current_thread() is first else block(wait)
def call():
    try:
        add.sync()
    except ToolError:
        pass
def start(thread):
    thread.start()
    while channel.reading is None:
        time.sleep(0.001)
channel.waits.block = late
first = threading.Thread(target=call, daemon=True)
start(first)
"""
        self.run_in(session, code, tools=[tool("add")])
        code = "start(threading.Thread(target=call, daemon=True))\nkept = channel.reading\ngo.set()\nfirst.join()\nprint(kept is not None and channel.reading is kept)"
        self.assertEqual(self.run_in(session, code, tools=[tool("add")]).out, "True\n")

    def test_a_call_of_the_last_run_is_none_of_this_one(self):
        session = self.session()
        code = """
import threading
channel = next(one.cell_contents for one in add.sync.__closure__ if hasattr(one.cell_contents, "ask_sync"))
come, go, why = threading.Event(), threading.Event(), []
class Late(dict):
    def items(self):
        come.set()
        go.wait()
        return super().items()
def call():
    try:
        add.sync(a=Late(b=1))
    except ToolError as error:
        why.append(str(error))
late = threading.Thread(target=call, daemon=True)
late.start()
come.wait()
"""
        self.run_in(session, code, tools=[tool("add")])
        code = "go.set()\nlate.join()\nprint(why)\nawait add(b=2)"
        outcome = self.run_in(session, code, tools=[tool("add")], answer=lambda process, call: reply(process, call, 1))
        self.assertEqual(outcome.out, "['tool add: the run that called it has ended']\n")
        self.assertEqual([(call["call"], call["arguments"]) for call in outcome.calls], [(1, {"b": 2})])

    def test_it_survives_errors_and_exits(self):
        session = self.session()
        self.run_in(session, "x = 1")
        for code, how in (("1/0", "raised"), ("exit(3)", "exit"), ("import sys; sys.exit('bye')", "exit"), ("x =", "raised"), ("raise MemoryError", "memory")):
            self.assertEqual(self.run_in(session, code).how, how)
            self.assertEqual(self.run_in(session, "print(x)").out, "1\n")
        self.assertEqual(self.run_in(session, "input()").error["type"], "EOFError")
        self.assertEqual(self.run_in(session, "print(input())", stdin=b"again\n").out, "again\n")

    def test_it_survives_broken_streams(self):
        session = self.session()
        for code in (
            "import sys; sys.stdout.close(); sys.stderr.close()",
            "import sys; sys.stdout = None; sys.stderr = 5",
            "import os; os.close(1); os.close(2); os.close(0)",
            "import sys, io; sys.stdout = io.StringIO(); print('swallowed')",
            "import sys; sys.stdout.detach()",
            "import sys; sys.stdin.close()",
            "del __import__('sys').stdout",
        ):
            self.assertEqual(self.run_in(session, code).how, "ok", code)
            outcome = self.run_in(session, "import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint(repr(sys.stdin.read()))")
            self.assertEqual((outcome.out, outcome.err), ("out\n''\n", "err\n"), code)

    def test_stored_streams_write_into_the_run_that_is_going_on(self):
        session = self.session()
        self.run_in(session, "import sys, logging\nlogging.basicConfig(format='%(message)s')\nout = sys.stdout\nprint('one')")
        outcome = self.run_in(session, "logging.warning('logged')\nprint('two', file=out)")
        self.assertEqual((outcome.out, outcome.err), ("two\n", "logged\n"))
        self.assertEqual(self.run_in(session, "print('three')").out, "three\n")

    def test_threads_go_on_and_do_not_write_into_the_next_run(self):
        session = self.session()
        code = (
            "import threading, os\nr, w = os.pipe()\ndone = threading.Event()\n"
            "def work():\n    os.read(r, 1)\n    print('from the last run')\n    done.set()\n"
            "threading.Thread(target=work).start()\nprint('first', os.getpid(), w)"
        )
        _first, pid, w = self.run_in(session, code).out.split()
        # Between two runs the thread prints. The pipe tells it to, and its event says at the next run how far it came.
        with open("/proc/%s/fd/%s" % (pid, w), "wb") as pipe:
            pipe.write(b"x")
        deadline = time.monotonic() + 60
        while len(os.listdir("/proc/%s/task" % pid)) > 1:
            self.assertLess(time.monotonic(), deadline)
            os.sched_yield()
        self.assertEqual(self.run_in(session, "print(done.is_set())").out, "True\n")

    def test_pipes_end_with_the_run(self):
        session = self.session()
        code = "import os\nprint([os.readlink('/proc/self/fd/%d' % i) for i in range(3)])"
        outcome = self.run_in(session, code)
        self.assertEqual(outcome.out.count("pipe:"), 3)
        # The next run's streams are made over a pipe, which goes, too.
        deadline = time.monotonic() + 60
        while {os.readlink("/proc/%d/fd/%d" % (session.pid, fd)) for fd in range(3)} != {"/dev/null"}:
            self.assertLess(time.monotonic(), deadline)
            os.sched_yield()

    def test_tracebacks_name_the_run(self):
        session = self.session()
        self.run_in(session, "def f():\n    return 1 / 0  # here")
        outcome = self.run_in(session, "pass\nf()")
        text = outcome.error["traceback"]
        self.assertIn('File "main_2.py", line 2, in <module>\n    f()', text)
        self.assertIn('File "main.py", line 2, in f\n    return 1 / 0  # here', text)

    def test_tools_are_those_of_the_run(self):
        session = self.session()
        outcome = self.run_in(session, "print(await a())", tools=[tool("a"), tool("b")], answer=lambda p, c: reply(p, c, 1))
        self.assertEqual(outcome.out, "1\n")
        outcome = self.run_in(session, "print(await b(), 'a' in globals())", tools=[tool("b")], answer=lambda p, c: reply(p, c, 2))
        self.assertEqual(outcome.out, "2 False\n")
        self.assertEqual([c["call"] for c in outcome.calls], [1])
        self.assertEqual(self.run_in(session, "b").error["type"], "NameError")

    def test_late_results_are_dropped(self):
        session = self.session()
        code = "import asyncio\nt = asyncio.ensure_future(a())\nawait asyncio.sleep(0)\nawait asyncio.sleep(0)\nprint('go')"
        outcome = self.run_in(session, code, tools=[tool("a")])
        self.assertEqual((outcome.out, len(outcome.calls)), ("go\n", 1))
        session.send({"op": "result", "call": 1, "ok": "stale"})
        session.send({"op": "result", "call": 77, "error": "stale"})

        def answer(process, call):
            process.send({"op": "result", "call": 99, "ok": "unknown"})
            reply(process, call, "fresh")

        outcome = self.run_in(session, "print(await a(), t)", tools=[tool("a")], answer=answer)
        self.assertIn("fresh <Task cancelled", outcome.out)

    def test_tasks_go_on_while_a_run_is_going_on(self):
        session = self.session()
        self.run_in(session, "import asyncio\nseen = []\nasync def count():\n    while True:\n        seen.append(1)\n        await asyncio.sleep(0)\nt = asyncio.ensure_future(count())\nawait asyncio.sleep(0)")
        before = int(self.run_in(session, "print(len(seen))").out)
        after = int(self.run_in(session, "for _ in range(5):\n    await asyncio.sleep(0)\nprint(len(seen))").out)
        self.assertGreaterEqual(after, before + 5)

    def test_loops_of_its_own_do_not_disturb(self):
        session = self.session()
        self.assertEqual(self.run_in(session, "import asyncio\nprint(await asyncio.sleep(0, 1))").out, "1\n")
        self.assertEqual(self.run_in(session, "print(asyncio.run(asyncio.sleep(0, 2)))").out, "2\n")
        self.assertEqual(self.run_in(session, "print(await asyncio.sleep(0, 3))").out, "3\n")
        self.run_in(session, "l = asyncio.get_running_loop() if False else None\nasync def f(): asyncio.get_running_loop().stop()\nawait f()\nawait asyncio.sleep(0.01)")
        self.assertEqual(self.run_in(session, "print(await asyncio.sleep(0, 4))").out, "4\n")

    def test_a_task_that_fails_between(self):
        session = self.session()
        self.assertEqual(self.run_in(session, "raise SystemExit(await __import__('asyncio').sleep(0, 4))").code, 4)
        self.assertEqual(self.run_in(session, "await __import__('asyncio').sleep(0)\n1/0").how, "raised")
        outcome = self.run_in(session, "import gc; gc.collect()")
        self.assertEqual((outcome.how, outcome.err), ("ok", ""))

    def test_calls_of_an_earlier_run_are_refused(self):
        session = self.session()
        code = (
            "import threading, os\nr, w = os.pipe()\ndef work(a=a):\n    os.read(r, 1)\n    try:\n        a.sync()\n    except ToolError as e:\n        got.append(str(e))\n"
            "got = []\nt = threading.Thread(target=work)\nt.start()\nprint(os.getpid(), w)"
        )
        pid, w = self.run_in(session, code, tools=[tool("a")]).out.split()
        with open("/proc/%s/fd/%s" % (pid, w), "wb") as pipe:
            pipe.write(b"x")
        outcome = self.run_in(session, "t.join()\nprint(got)")
        self.assertRegex(outcome.out, "while it runs|not one of the tools")
        self.assertEqual(outcome.calls, [])

    def test_future_imports_stay(self):
        session = self.session()
        self.run_in(session, "from __future__ import annotations\ndef f(x: nowhere): pass")
        self.assertEqual(self.run_in(session, "def g(x: nowhere): pass\nprint(g.__annotations__)").out, "{'x': 'nowhere'}\n")

    def test_many_runs_leave_no_descriptors(self):
        session = self.session()
        self.run_in(session, "import os")
        first = self.run_in(session, "print(len(os.listdir('/proc/self/fd')))").out
        for _ in range(20):
            self.run_in(session, "await a()", tools=[tool("a")], answer=lambda p, c: fail(p, c, "x"))
        self.run_in(session, "await a()", tools=[tool("a")], answer=lambda p, c: reply(p, c, 1))
        count = int(self.run_in(session, "print(len(os.listdir('/proc/self/fd')))").out)
        self.assertLessEqual(count, int(first) + 3)  # The loop's own.

    def test_a_session_without_room_for_the_next_runs_descriptors_ends(self):
        session = self.session()
        code = (
            "import os, resource\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
            "held = []\n"
            "try:\n"
            "    while True: held.append(os.dup(0))\n"
            "except OSError:\n"
            "    os.close(held.pop())\n"
        )
        self.assertEqual(self.run_in(session, code).how, "ok")
        outcome = self.run_in(session, "print(1)")
        self.assertIsNone(outcome.done)
        self.assertEqual([m["op"] for m in outcome.messages], [])
        self.assertEqual(session.wait(), 71)

    def test_ends_quietly_with_its_channel(self):
        session = self.session()
        self.run_in(session, "x = 1")
        session.channel.close()
        self.assertEqual(session.wait(), 0)


if __name__ == "__main__":
    unittest.main()
