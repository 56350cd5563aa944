"""Batches that can't go on: whoever waits for results is told, and never waits for ever."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from bridge_log import Log
from helpers import finished, on_a_loop, program, soon, until

from thermae import AsyncSandbox, Job, Sandbox
from thermae.errors import BadTool, ConnectionLost, ForkedClientError, SandboxClosed


class Fatal(BaseException):
    pass


def same_job() -> Any:
    return [Job("wait", job_id="twin")] * 2


# What is passed as jobs, and the error that names what is wrong with it.
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: "print a", TypeError, "a list of programs"),
    (lambda: ["print a", None, "print b"], TypeError, "not NoneType"),
    (lambda: [b"print a"], TypeError, "not bytes"),
    (same_job, ValueError, "two jobs of the batch have the id twin"),
]


@pytest.mark.parametrize(("jobs", "kind", "why"), WRONG)
def test_what_is_no_list_of_jobs_is_named(jobs: Callable[[], Any], kind: type[Exception], why: str) -> None:
    with Sandbox() as box, pytest.raises(kind, match=why):
        list(box.batch(jobs()))

    @on_a_loop
    async def on_loop() -> None:
        async with AsyncSandbox() as box:
            with pytest.raises(kind, match=why):
                _ = [one async for one in box.batch(jobs())]

    on_loop()


def test_a_batch_that_outlives_its_sandbox_ends() -> None:
    with Sandbox() as box:
        late = box.batch(["print a"])
        begun = box.batch(["print a", "wait", "print b"], concurrency=2)
        next(begun)
    with pytest.raises(SandboxClosed):
        next(late)
    with pytest.raises((SandboxClosed, ConnectionLost)):
        list(begun)


def test_a_batch_in_a_forked_child_is_refused() -> None:
    status, out, err = finished(
        program(
            f"""
        import os
        from thermae import Sandbox
        from thermae.errors import {ForkedClientError.__name__}
        with Sandbox() as box:
            batch = box.batch(["print a"])
            if (pid := os.fork()) == 0:
                try:
                    next(batch)
                except ForkedClientError:
                    os._exit(7)
                os._exit(1)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(list(batch)))
        """,
            forks=True,
        )
    )
    assert (status, out.strip()) == (0, "7 1"), err


@pytest.mark.parametrize("error", [asyncio.CancelledError(), Fatal("over"), SystemExit(3)])
@on_a_loop
async def test_a_source_of_jobs_can_raise_anything(error: BaseException) -> None:
    async def jobs() -> AsyncIterator[str]:
        yield "print a"
        raise error

    async with AsyncSandbox() as box:
        with pytest.raises(type(error)):
            _ = [one async for one in box.batch(jobs())]
        assert (await box.run("print b")).stdout == "b\n"


def test_a_program_is_text() -> None:
    with Sandbox() as box:
        for wrong in (b"print a", 5, None, ["print a"]):
            with pytest.raises(TypeError, match="a program is text or a Job"):
                box.run(wrong)  # type: ignore[arg-type]


def test_a_bad_tool_is_all_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def bad(one: "NoSuchHint") -> None:  # type: ignore[name-defined] # noqa: F821
        """Its hint is unknown."""

    with pytest.raises(BadTool, match="NoSuchHint"):
        Sandbox(tools=[bad]).run("print a")
    gc.collect()
    assert not caplog.records


def test_a_batch_that_is_left_cancels_what_is_under_way(bridge: Log) -> None:
    with Sandbox() as box:
        with box.batch(["print a", "wait", "wait"]) as batch:
            assert next(batch).result.stdout == "a\n"
        until(lambda: len(bridge.frames("cancel")) == 2)
        assert list(batch) == []


@on_a_loop
async def test_an_async_batch_that_is_left_cancels_what_is_under_way(bridge: Log) -> None:
    async with AsyncSandbox() as box:
        async with box.batch(["print a", "wait", "wait"]) as batch:
            assert (await anext(batch)).result.stdout == "a\n"
        await soon(lambda: len(bridge.frames("cancel")) == 2)
        assert [one async for one in batch] == []
