import asyncio
import contextvars
import json
import logging
import threading
import time
from typing import Any

import pytest
from bridge_log import Log
from helpers import failure, on_a_loop

from thermae import AsyncSandbox, Sandbox, errors, tool
from thermae._calls import ToolCalls
from thermae._events import ToolCall

USER: contextvars.ContextVar[str] = contextvars.ContextVar("USER", default="nobody")


def answer(text: str) -> Any:
    return json.loads(text.splitlines()[0])


def test_sync_tools_run_in_threads_and_at_once() -> None:
    barrier = threading.Barrier(10, timeout=60)

    def together(n: int) -> str:
        barrier.wait()
        return threading.current_thread().name

    with Sandbox(tools=[together]) as box:
        answers = answer(box.run('calls 10 together {"n": 1}').stdout)
    assert [one["ok"] for one in answers] == ["thermae-tool-together"] * 10


@on_a_loop
async def test_async_tools_run_on_the_callers_loop_and_at_once() -> None:
    loops = set()
    arrived = 0
    everybody = asyncio.Event()

    async def together() -> None:
        nonlocal arrived
        loops.add(asyncio.get_running_loop())
        arrived += 1
        if arrived == 10:
            everybody.set()
        await everybody.wait()

    async with AsyncSandbox(tools=[together]) as box:
        assert answer((await box.run("calls 10 together {}")).stdout) == [{"ok": None}] * 10
    assert loops == {asyncio.get_running_loop()}


def test_async_tools_of_a_sync_sandbox_run_on_its_loop_or_on_the_named_one() -> None:
    async def where() -> int:
        return id(asyncio.get_running_loop())

    with Sandbox(tools=[where]) as box:
        first, second = (answer(box.run("call where {}").stdout)["ok"] for _ in range(2))
        assert first == second == id(box._runner.loop)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    with Sandbox(tools=[where], loop=loop) as box:
        assert answer(box.run("call where {}").stdout)["ok"] == id(loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_loop_that_waits_for_the_run_itself_is_refused() -> None:
    async def cell() -> None:
        with pytest.raises(errors.BlockedLoopError):
            Sandbox(loop=asyncio.get_running_loop()).run("print a")

    asyncio.run(cell())


def test_tools_can_run_programs_themselves_but_not_on_the_loop_that_would_wait() -> None:
    def nested() -> str:
        return box.run("print inner").stdout

    async def blocked() -> str:
        return box.run("print inner").stdout

    with Sandbox(tools=[nested, blocked]) as box:
        assert answer(box.run("call nested {}").stdout) == {"ok": "inner\n"}
        assert failure(box.run("call blocked {}").stdout).startswith("BlockedLoopError: blocked_loop")


def test_tools_see_the_context_of_the_run_and_change_only_a_copy() -> None:
    def sync() -> str:
        before = USER.get()
        USER.set("changed")
        return before

    async def later() -> str:
        before = USER.get()
        USER.set("changed")
        await asyncio.sleep(0)
        return before

    with Sandbox(tools=[sync, later]) as box:
        for user in ("a", "b"):
            USER.set(user)
            code = "call sync {}\ncall later {}\ncall sync {}\ncall later {}"
            assert [answer(line)["ok"] for line in box.run(code).stdout.splitlines()] == [user] * 4
            *_, result = box.stream("call sync {}")
            assert answer(result.stdout)["ok"] == user  # type: ignore[union-attr]
    assert USER.get() == "b"


def test_an_error_crosses_and_its_traceback_stays_here(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fails(how: str) -> None:
        raise {
            "key": KeyError("x"),
            "odd": Odd(),
            "exit": SystemExit(3),
            "stop": StopIteration(1),
            "surrogate": ValueError("\ud800"),
            "empty": ValueError(),
            "large": ValueError("x" * 1_000_000),
        }[how]

    async def fails_later() -> None:
        raise LookupError("later")

    async def cancels() -> None:
        raise asyncio.CancelledError

    with caplog.at_level(logging.WARNING, "thermae.tools"), Sandbox(tools=[fails, fails_later, cancels]) as box:

        def error(how: str) -> str:
            return failure(box.run(f'call fails {{"how": "{how}"}}').stdout)

        assert error("key") == "KeyError: 'x'"
        assert error("odd") == "Odd: (the error has no text)"
        assert error("exit") == "RuntimeError: SystemExit: 3"
        assert error("stop") == "RuntimeError: StopIteration: 1"
        assert error("surrogate") == "ValueError: ?"
        assert error("empty") == "ValueError"
        assert len(error("large")) == 1_000_012
        missing = "ArgumentsError: how: Missing required keyword only argument"
        assert failure(box.run("call fails {}").stdout) == missing
        assert failure(box.run("call fails_later {}").stdout) == "LookupError: later"
        assert failure(box.run("call cancels {}").stdout) == "CancelledError"
    assert "test_tool_calls.py" in caplog.text
    assert "tool=fails job=" in caplog.text


def test_a_result_that_json_cant_express_or_that_is_too_large_is_an_error() -> None:
    def strange() -> Any:
        return object()

    def large() -> str:
        return "x" * (17 << 20)

    with Sandbox(tools=[strange, large]) as box:
        assert "can't be written as JSON" in failure(box.run("call strange {}").stdout)
        assert "more than 16777216" in failure(box.run("call large {}").stdout)


@pytest.mark.parametrize("ending", ["none", "value", "error"])
def test_a_call_that_takes_too_long_is_cancelled_and_gets_no_answer_from_here(ending: str) -> None:
    ended = threading.Event()

    async def slow() -> int:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if ending == "error":
                raise OSError("given up") from None
            if ending == "none":
                raise
        finally:
            ended.set()
        return 7

    late = {"type": "TimeoutError", "message": "quick took too long"}
    with Sandbox(tools=[tool(slow, name="quick", timeout=1), slow]) as box:
        assert answer(box.run("call quick {}").stdout)["error"] == late
        assert ended.wait(60)
        ended.clear()
        assert answer(box.run("call slow {}", tool_wait=1).stdout)["error"]["type"] == "TimeoutError"
        assert ended.wait(60)


def test_a_time_out_of_the_function_s_own_is_an_error_as_any_other() -> None:
    async def slow() -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    with Sandbox(tools=[slow]) as box:
        assert answer(box.run("call slow {}").stdout)["error"] == {"type": "TimeoutError", "message": ""}


@on_a_loop
async def test_calls_end_with_their_job() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with AsyncSandbox(tools=[slow]) as box:
        task = asyncio.create_task(box.run("call slow {}"))
        await begun.wait()
        task.cancel()
        async with asyncio.timeout(60):
            await ended.wait()


def test_a_thread_that_hangs_does_not_keep_anybody() -> None:
    release = threading.Event()

    def hangs() -> None:
        release.wait(600)

    begun = time.monotonic()
    with Sandbox(tools=[hangs]) as box:
        assert "error" in answer(box.run("call hangs {}", tool_wait=0.05).stdout)
    assert time.monotonic() - begun < 60
    release.set()


def test_tools_do_not_wait_for_a_slow_reader_of_the_stream(bridge: Log) -> None:
    called = threading.Event()

    def ring() -> None:
        called.set()

    with Sandbox(tools=[ring]) as box:
        stream = box.stream("print a\ncall ring {}\nprint b")
        next(stream)
        assert called.wait(10)
        list(stream)


def test_errors_arrive_with_their_type_and_data() -> None:
    class Denied(Exception):
        def __init__(self, data: object) -> None:
            super().__init__("not you")
            self.data = data

    def denied(strange: bool = False) -> None:
        raise Denied(object() if strange else {"who": [1]})

    with Sandbox(tools=[denied]) as box:
        assert answer(box.run("call denied {}").stdout)["error"] == {
            "type": "Denied",
            "message": "not you",
            "data": {"who": [1]},
        }
        assert answer(box.run('call denied {"strange": true}').stdout)["error"] == {
            "type": "Denied",
            "message": "not you",
        }
        job = json.loads(box.run("job", inputs={"a": None}).stdout)
        assert job["inputs"] == {"a": {"value": None}}
        assert json.loads(box.run("job", capabilities=[]).stdout)["capabilities"] == []
    with Sandbox(tools=[denied], capabilities=[{"pattern": "denied"}]) as box, box.session() as session:
        assert json.loads(box.run("job").stdout)["capabilities"] == [{"pattern": "denied"}]
        assert json.loads(session.run("job").stdout)["capabilities"] == [{"pattern": "denied"}]
        assert json.loads(session.run("job", capabilities=[]).stdout)["capabilities"] == []
    with Sandbox(tools=[denied], token="a token") as box, box.session() as session:
        assert json.loads(box.run("job").stdout)["token"] == "a token"
        assert json.loads(session.run("job", token="another").stdout)["token"] == "another"


@on_a_loop
async def test_answers_are_kept_back_while_the_run_reads_none() -> None:
    ran, answers = asyncio.Event(), asyncio.Queue[bytes]()

    async def look() -> int:
        ran.set()
        return 1

    calls = ToolCalls({"look": tool(look)})

    async def begin(call: str) -> None:
        ran.clear()
        calls.begin(ToolCall("j", call, "look", {}, 7200, "w"), answers.put_nowait)
        await ran.wait()

    calls.hold(3600)
    await begin("kept")
    for _ in range(100):
        await asyncio.sleep(0)
    assert answers.empty()
    calls.hold(0)
    assert await answers.get() == b'{"ok":1}'
    await begin("sent")
    assert await answers.get() == b'{"ok":1}'
    calls.hold(3600)
    await begin("dropped")
    calls.end()
    for _ in range(100):
        await asyncio.sleep(0)
    assert answers.empty()
