"""What a program says when it only waits for its tool calls."""

import os
import socket
import time
import unittest
from types import SimpleNamespace

from support import Case, reply, tool

TOOLS = [tool("t", ["a"])]


class Late:
    """Answers each call after `seconds`."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def __call__(self, process, call):
        time.sleep(self.seconds)
        reply(process, call, call["call"])


def at_waits(process, outcome):
    """Answer every open call once the program says that it waits."""
    done = {message["call"] for message in getattr(outcome, "answered", [])}
    if outcome.messages and begins(outcome.messages[-1]):
        outcome.answered = list(outcome.calls)
        for call in outcome.calls:
            if call["call"] not in done:
                reply(process, call, call["call"])


def begins(message):
    """Whether a message says that the program waits. Without `got`, it says that the program goes on."""
    return message["op"] == "waits" and "got" in message


def waits(outcome):
    return [message for message in outcome.messages if begins(message)]


class Waits(Case):
    def waited(self, code, **options):
        begun = time.monotonic()
        outcome = self.ok(code, tools=TOOLS, at=at_waits, **options)
        took = (time.monotonic() - begun) * 1000
        said = waits(outcome)
        self.assertTrue(said)
        for one in said:
            # A thread that begins to wait later than the others makes the wait shorter.
            self.assertTrue(0 <= one["for_ms"] + one.get("waited", 0) <= took, (one, took))
        return outcome

    def never(self, code, seconds=0.5, **options):
        outcome = self.ok(code, tools=TOOLS, answer=Late(seconds), **options)
        self.assertEqual(waits(outcome), [])
        self.assertEqual([call for call in outcome.calls if "waited" in call], [])
        return outcome

    def test_a_long_wait_is_said(self):
        for code in (
            "print(await t(1))",
            "print(t.sync(1))",
            "import asyncio\nprint((await asyncio.gather(*[t(i) for i in range(3)]))[0])",
            "import asyncio\nasync def main(): print(await t(1))\nasyncio.run(main())",
            "import asyncio\nloop = asyncio.new_event_loop()\nprint(loop.run_until_complete(t(1)))\nloop.close()",
        ):
            with self.subTest(code=code):
                outcome = self.waited(code)
                self.assertEqual(outcome.out, "1\n")
                self.assertEqual(waits(outcome)[0]["got"], 0)

    def test_each_wait_is_said_with_what_the_program_has_got(self):
        outcome = self.waited("for _ in range(3): await t(1)\nt.sync(1)")
        self.assertEqual([one["got"] for one in waits(outcome)], [0, 1, 2, 3])

    def test_threads_that_wait_too_do_not_matter(self):
        for code in (
            "import threading\nx = [threading.Thread(target=t.sync, args=(i,)) for i in range(3)]\n"
            "[y.start() for y in x]\n[y.join() for y in x]",
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(3) as pool: print(list(pool.map(t.sync, range(3))))",
            "import asyncio\nawait asyncio.to_thread(len, 'x')\nawait t(1)",
            "import asyncio\nprint(await asyncio.gather(asyncio.to_thread(t.sync, 1), t(2)))",
            "import threading\nthreading.Thread(target=t.sync, args=(1,)).start()",
        ):
            with self.subTest(code=code):
                self.waited(code)

    def test_an_answer_that_another_thread_reads_as_a_silent_wait_ends_is_seen(self):
        from harness_channel import Channel

        here, there = socket.socketpair()
        with here, there:
            channel = Channel(SimpleNamespace(pid=os.getpid(), hold=lambda: False))
            channel.open_on(os.dup(here.fileno()))
            channel.start_run({"t"})
            channel.reading = []

            def block(wait):
                self.assertFalse(wait(0.0))
                # What the thread that reads does once it has the lock.
                channel.reading = None
                channel.waiting[1](True, "answer")
                channel.turn.notify_all()
                self.assertTrue(wait(1.0))

            channel.waits.block = block
            self.assertEqual(channel.ask_sync("t", {}), (True, "answer"))
            channel.sock.close()

    def test_nothing_is_said_while_something_else_goes_on(self):
        for code in (
            "import asyncio\nasync def tick():\n    while True: await asyncio.sleep(9)\n"
            "x = asyncio.ensure_future(tick())\nawait t(1)\nx.cancel()",
            "import asyncio\nawait asyncio.wait_for(t(1), 60)",
            "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()\nawait t(1)",
            "import threading\nstop = []\ndef busy():\n    while not stop: pass\n"
            "threading.Thread(target=busy).start()\ntry: t.sync(1)\nfinally: stop.append(1)",
            "import asyncio, time\nx = asyncio.ensure_future(asyncio.to_thread(time.sleep, 1))\nawait t(1)\nawait x",
            "import subprocess\nwith subprocess.Popen(['sleep', '60']) as p:\n    t.sync(1)\n    await t(1)\n    p.kill()",
            "import os\nif os.fork() == 0:\n    os._exit(0)\nawait t(1)",
            "import asyncio, os\na, b = os.pipe()\nasyncio.get_running_loop().add_reader(a, print)\nawait t(1)",
            "import asyncio\nx = asyncio.ensure_future(t(1))\nawait asyncio.sleep(0)\nimport time\ntime.sleep(1)\nawait x",
        ):
            with self.subTest(code=code):
                self.never(code)

    def test_short_waits_are_told_with_the_next_call(self):
        for code in ("for i in range(5): await t(i)", "for i in range(5): t.sync(i)"):
            with self.subTest(code=code):
                begun = time.monotonic()
                outcome = self.ok(code, tools=TOOLS, answer=Late(0.03))
                took = (time.monotonic() - begun) * 1000
                told = [call.get("waited", 0) for call in outcome.calls]
                self.assertEqual((told, told[0]), (sorted(told), 0))
                # On a busy machine, one of them may be long enough to be told by itself.
                alone = sum(one["for_ms"] for one in waits(outcome))
                self.assertTrue(100 <= told[-1] + alone <= took, (told, alone, took))

    def test_many_short_waits_for_calls_of_one_time_are_told(self):
        code = "import asyncio\nx = await asyncio.gather(*[t(i) for i in range(20)])"
        outcome = self.ok(code, tools=TOOLS, answer=Late(0.03))
        self.assertTrue(waits(outcome))
        self.assertGreaterEqual(waits(outcome)[-1]["waited"], 100)

    def test_fast_calls_say_nothing(self):
        code = "for i in range(50): await t(i)\nfor i in range(50): t.sync(i)"
        outcome = self.ok(code, tools=TOOLS, answer=Late())
        self.assertEqual(len(outcome.calls), 100)
        # On a busy machine, an answer may come late.
        self.assertTrue(all(one["for_ms"] >= 150 for one in waits(outcome)), waits(outcome))

    def test_a_time_limit_and_a_cancel_still_work(self):
        code = (
            "import asyncio\n"
            "try: await asyncio.wait_for(t(1), 0.3)\n"
            "except asyncio.TimeoutError: print('late')\n"
            "x = asyncio.ensure_future(t(2))\n"
            "await asyncio.sleep(0.3)\n"
            "x.cancel()\n"
            "print(await t(3))"
        )
        outcome = self.ok(code, tools=TOOLS, at=at_waits)
        self.assertEqual(outcome.out, "late\n3\n")

    def test_an_interrupt_ends_a_wait_that_was_said(self):
        for code in ("await t(1)", "t.sync(1)", "import asyncio\nasyncio.run(t(1))"):
            with self.subTest(code=code):

                def at(process, outcome):
                    if outcome.messages and begins(outcome.messages[-1]):
                        process.interrupt()

                outcome = self.fresh(code, tools=TOOLS, at=at)
                self.assertEqual(outcome.how, "interrupted", outcome.done)

    def test_the_selector_is_as_before_when_no_call_is_outstanding(self):
        code = (
            "import asyncio\n"
            "await t(1)\n"
            "loop = asyncio.get_running_loop()\n"
            "print('select' in vars(loop._selector))\n"
            "x = asyncio.ensure_future(t(2))\n"
            "await asyncio.sleep(0)\n"
            "print('select' in vars(loop._selector))\n"
            "await x\n"
            "print('select' in vars(loop._selector))"
        )
        self.assertEqual(self.ok(code, tools=TOOLS, answer=Late()).out, "False\nTrue\nFalse\n")

    def test_a_session_counts_each_run_anew(self):
        session = self.session()
        for _ in range(2):
            outcome = session.run("await t(1)\nawait t(2)", tools=TOOLS, session=True, at=at_waits)
            self.assertEqual([one["got"] for one in waits(outcome)], [0, 1])


if __name__ == "__main__":
    unittest.main()
