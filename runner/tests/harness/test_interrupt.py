"""The soft time-out: an interrupt that the program sees, and after which everything is whole."""

import os
import signal
import sys
import time
import unittest

from support import Case, fail, reply, tool


def when_ready(process, outcome):
    """Interrupt once, as soon as the program says that it is ready."""
    if b"ready" in outcome.stderr and not getattr(outcome, "sent", False):
        outcome.sent = True
        process.interrupt()


def when_asleep(process, outcome):
    """Interrupt once, when the program has said that it is ready and the kernel says that it sleeps."""
    if b"ready" in outcome.stderr and not getattr(outcome, "sent", False):
        outcome.sent = True
        deadline = time.monotonic() + 10
        while state(process.pid) != "S" and time.monotonic() < deadline:
            os.sched_yield()
        process.interrupt()


def state(pid):
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rsplit(")", 1)[1].split()[0]


READY = "__import__('sys').stderr.write('ready\\n')\n"


class Interrupts(Case):
    def interrupted(self, code, at=when_ready, **options):
        outcome = self.fresh(code, at=at, **options)
        self.assertEqual((outcome.how, outcome.error["type"], outcome.status), ("interrupted", "KeyboardInterrupt", 1))
        return outcome

    def test_loops(self):
        outcome = self.interrupted("print('more')\n" + READY + "while True:\n    pass")
        self.assertIn("main.py", outcome.error["traceback"])
        self.assertEqual(outcome.out, "more\n")

    def test_sleeps(self):
        self.interrupted(READY + "import time\ntime.sleep(1000)", at=when_asleep)

    def test_caught(self):
        outcome = self.fresh("try:\n    " + READY + "    while True: pass\nexcept KeyboardInterrupt:\n    print('seen')", at=when_ready)
        self.assertEqual((outcome.how, outcome.out), ("ok", "seen\n"))

    def test_awaiting_is_cancelled(self):
        code = "import asyncio\n" + "try:\n    " + READY + "    await asyncio.sleep(1000)\nfinally:\n    await asyncio.sleep(0)\n    print('tidied')"
        outcome = self.interrupted(code, at=when_asleep)
        self.assertEqual(outcome.out, "tidied\n")
        self.assertIn('File "main.py", line 4, in <module>\n    await asyncio.sleep(1000)', outcome.error["traceback"])

    @unittest.skipIf(sys.version_info < (3, 11), "asyncio.run leaves interrupts alone")
    def test_a_loop_of_the_programs_own_cancels_its_task(self):
        code = (
            "import asyncio, signal\nasync def main():\n    signal.raise_signal(signal.SIGINT)\n    print('goes on')\n"
            "    await asyncio.sleep(1000)\ntry:\n    asyncio.run(main())\nexcept KeyboardInterrupt:\n    print('seen')\n"
            "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.default_int_handler.__module__)"
        )
        self.assertEqual(self.ok(code).out, "goes on\nseen\nTrue signal\n")

    def test_the_handler_is_like_the_interpreters_own(self):
        code = (
            "import copy, pickle, signal\nclass A: handler = signal.default_int_handler\n"
            "print(A().handler is A.handler, pickle.loads(pickle.dumps(A.handler)) is A.handler, copy.deepcopy(A.handler) is A.handler)"
        )
        self.assertEqual(self.ok(code).out, "True True True\n")

    def test_awaiting_a_tool(self):
        self.interrupted(READY + "await a()", tools=[tool("a")], at=when_asleep)
        self.interrupted(READY + "a.sync()", tools=[tool("a")], at=when_asleep)

    def test_a_busy_coroutine(self):
        self.interrupted("async def f():\n    " + READY + "    while True: pass\nawait f()")
        self.interrupted("import asyncio\nasync def f():\n    " + READY + "    while True: pass\nasyncio.ensure_future(f())\nawait asyncio.sleep(1000)")

    def test_a_loop_of_its_own(self):
        self.interrupted("import asyncio\nasync def f():\n    " + READY + "    await asyncio.sleep(1000)\nasyncio.run(f())", at=when_asleep)

    def test_during_the_join_of_threads(self):
        code = "import threading\nthreading.Thread(target=threading.Event().wait).start()\n" + READY
        self.assertEqual(self.fresh(code, at=when_asleep).how, "interrupted")

    def test_during_a_flood_of_calls(self):
        def answer(process, call):
            reply(process, call, "x" * 1000)
            if call["call"] == 300:
                process.interrupt()

        session = self.session()
        for _ in range(5):
            code = "import asyncio\nwhile True:\n    await asyncio.gather(*(a(x='y' * 5000) for _ in range(20)))"
            outcome = session.run(code, tools=[tool("a")], answer=answer, session=True)
            self.assertEqual(outcome.how, "interrupted")
            code = "while True:\n    a.sync(x='y' * 5000)"
            outcome = session.run(code, tools=[tool("a")], answer=answer, session=True)
            self.assertEqual(outcome.how, "interrupted")
        outcome = session.run("print(await a())", tools=[tool("a")], answer=lambda p, c: reply(p, c, "whole"), session=True)
        self.assertEqual(outcome.out, "whole\n")

    def test_at_every_step_of_a_blocking_call(self):
        """A reader that was interrupted between its steps must not keep the next run's results from being read."""

        def answer(process, call):
            reply(process, call, None)
            if call["call"] == stop:
                process.interrupt()

        session = self.session()
        for stop in range(1, 150):
            code = "while True:\n    a.sync()"
            self.assertEqual(session.run(code, tools=[tool("a")], answer=answer, session=True).how, "interrupted")
            again = session.run("print(await a())", tools=[tool("a")], answer=lambda p, c: reply(p, c, stop), session=True)
            self.assertEqual(again.out, "%d\n" % stop)

    def test_while_a_coroutine_begins_or_ends_to_wait_for_a_call(self):
        """An interrupt between the steps of a selector must not make it differ from the kernel, or no later call could
        wait."""
        code = (
            "import asyncio, os, signal\nselector = asyncio.get_running_loop()._selector\nreal = selector._selector\n"
            "class Interrupted:\n    def __getattr__(self, name):\n        return getattr(real, name)\n"
            "    def register(self, *args):\n        real.register(*args)\n        self.interrupt('register')\n"
            "    def unregister(self, *args):\n        self.interrupt('unregister')\n        real.unregister(*args)\n"
            "    def interrupt(self, step):\n        if step == %r:\n            os.kill(os.getpid(), signal.SIGINT)\n"
            "selector._selector = Interrupted()\ntry:\n    await a()\nfinally:\n    selector._selector = real"
        )
        session = self.session()
        for step in ("register", "unregister"):
            outcome = session.run(code % step, tools=[tool("a")], answer=lambda p, c: reply(p, c, None), session=True)
            self.assertEqual(outcome.how, "interrupted", step)
            again = session.run("print(await a())", tools=[tool("a")], answer=lambda p, c: reply(p, c, step), session=True)
            self.assertEqual(again.out, step + "\n", again.error)

    def test_a_session_stays_and_answers_the_next_job_only(self):
        session = self.session()
        code = "x = 5\nprint('late', end='')\n" + READY + "while True: pass"
        outcome = session.run(code, session=True, at=when_ready)
        self.assertEqual((outcome.how, outcome.out), ("interrupted", "late"))
        outcome = session.run("print(x)", session=True)
        self.assertEqual((outcome.how, outcome.out, outcome.err), ("ok", "5\n", ""))

    def test_between_runs_it_does_nothing(self):
        session = self.session()
        session.run("x = 1", session=True)
        session.interrupt()
        self.assertEqual(session.run("print(x)", session=True).out, "1\n")

    def test_a_program_that_ignores_it_has_its_output_flushed(self):
        def kill_after_flush(process, outcome):
            when_ready(process, outcome)
            if b"late" in outcome.stdout and not getattr(outcome, "killed", False):
                outcome.killed = True
                os.kill(process.pid, signal.SIGKILL)

        code = "print('late')\nwhile True:\n    try:\n        " + READY + "        while True: pass\n    except KeyboardInterrupt:\n        pass"
        outcome = self.fresh(code, at=kill_after_flush)
        self.assertIsNone(outcome.done)
        self.assertEqual((outcome.out, outcome.status), ("late\n", -9))

    def test_next_run_is_interruptible_after_a_program_ignored_the_signal(self):
        session = self.session()
        session.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)", session=True)
        self.assertEqual(session.run(READY + "while True: pass", session=True, at=when_ready).how, "interrupted")

    def test_tool_errors_after_an_interrupt(self):
        session = self.session()
        session.run(READY + "await a()", session=True, at=when_ready, tools=[tool("a")])
        outcome = session.run("await a()", session=True, tools=[tool("a")], answer=lambda p, c: fail(p, c, "no"))
        self.assertEqual(outcome.error["type"], "ToolError")


if __name__ == "__main__":
    unittest.main()
