"""How tools end: nothing that a tool raises or returns ends anything but its own call."""

import asyncio
import contextvars
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers import failure, on_a_loop

from thermae import AsyncSandbox, Sandbox, tool


class Fatal(BaseException):
    pass


def answer(text: str) -> Any:
    return json.loads(text.splitlines()[0])


def raising(error: BaseException) -> Callable[..., Any]:
    async def ends() -> None:
        raise error

    return ends


def raising_later(error: BaseException) -> Callable[..., Any]:
    def ends() -> Any:
        return raising(error)()

    return ends


@pytest.mark.parametrize("make", [raising, raising_later])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Fatal("over"), GeneratorExit()])
def test_an_async_tool_that_would_end_the_loop_fails_alone(error: BaseException, make: Any) -> None:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    with Sandbox(tools=[make(error)]) as box:
        assert failure(box.run("call ends {}", timeout=5).stdout) == f"RuntimeError: {text}"
        assert box.run("print still here").stdout == "still here\n"


@on_a_loop
async def test_an_async_tool_does_not_end_the_callers_loop() -> None:
    async with AsyncSandbox(tools=[raising(SystemExit(3))]) as box:
        assert failure((await box.run("call ends {}", timeout=5)).stdout) == "RuntimeError: SystemExit: 3"


def test_a_loop_that_does_not_run_is_named_at_once(recwarn: pytest.WarningsRecorder) -> None:
    loop = asyncio.new_event_loop()
    with Sandbox(tools=[tool(raising(ValueError()), timeout=60)], loop=loop) as box:
        for _ in range(2):
            assert "loop= does not run" in failure(box.run("call ends {}").stdout)
            loop.close()
    assert not [str(one.message) for one in recwarn]


def test_an_errors_data_can_raise() -> None:
    class Odd(Exception):
        @property
        def data(self) -> object:
            raise RuntimeError("no data")

    def odd() -> None:
        raise Odd("text")

    with Sandbox(tools=[odd]) as box:
        assert answer(box.run("call odd {}", timeout=5).stdout)["error"] == {"type": "Odd", "message": "text"}


def test_a_generator_runs_in_the_tools_thread_and_context() -> None:
    user = contextvars.ContextVar("user", default="nobody")
    names = []

    def rows() -> Iterator[str]:
        yield user.get()
        names.append(threading.current_thread().name)
        yield "end"

    with Sandbox(tools=[tool(lambda: rows(), name="rows")]) as box:
        user.set("ada")
        assert answer(box.run("call rows {}").stdout) == {"ok": ["ada", "end"]}
    assert names == ["thermae-tool-rows"]
