"""Batches that can't go on: whoever waits for results is told, and never waits for ever."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from bridge_log import Log
from helpers import finished, on_a_loop, program, soon, until
from other_systems import OVER_HTTP

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


def test_a_batch_with_a_file_of_results_runs_nothing_twice(bridge: Log, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"

    def jobs() -> list[Job]:
        return [Job(f"print {n}", job_id=f"job-{n}") for n in range(5)]

    with Sandbox() as box:
        with box.batch(jobs(), concurrency=1, results=path) as batch:
            assert [next(batch).job.id, next(batch).job.id] == ["job-0", "job-1"]
        path.write_bytes(path.read_bytes() + b'{"id":"job-9","sta')  # A kill amid a write.
        again = box.batch(jobs(), results=path)
        assert sorted(done.index for done in again) == [2, 3, 4]
        assert (again.progress.total, again.progress.done, again.progress.before) == (5, 5, 2)
        assert again.progress.statuses == {"succeeded": 5}
        assert list(box.batch(jobs(), results=path)) == []
    submitted = [one["job"] for one in bridge.frames("run")]
    assert sorted(submitted) == [f"job-{n}" for n in range(5)]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((one["id"], one["status"], one["stdout"]) for one in lines) == [
        (f"job-{n}", "succeeded", f"{n}\n") for n in range(5)
    ]


@on_a_loop
async def test_an_async_batch_goes_on_with_its_file_of_results(bridge: Log, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    names = ["a", "b", "c"]

    async def jobs() -> AsyncIterator[Job]:
        for name in names:
            yield Job(f"print {name}", job_id=name)

    async with AsyncSandbox() as box:
        async with box.batch(jobs(), concurrency=1, results=path) as batch:
            assert (await anext(batch)).job.id == "a"
        batch = box.batch(jobs(), results=path)
        rest = [done.job.id async for done in batch]
        assert batch.progress.before + len(rest) == batch.progress.done == 3
        assert "a" not in rest
        # Jobs without an end are left: they run again.
        names[:] = ["a", "d", "e"]
        async with box.batch((Job("wait", job_id=name) for name in names), results=path) as batch:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await anext(batch)
        assert sorted([done.job.id async for done in box.batch(jobs(), results=path)]) == ["d", "e"]
    assert sorted(json.loads(line)["id"] for line in path.read_text().splitlines()) == ["a", "b", "c", "d", "e"]


def test_what_was_cancelled_before_runs_under_another_id(bridge: Log, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with Sandbox() as box:
        (done,) = box.batch([Job("end cancelled cancelled", job_id="old")], results=path)
        assert done.result.status == "cancelled"
        first, second = (one["job"] for one in bridge.frames("run"))
        assert first == "old" != second
        assert path.read_text() == ""  # It can run again.


def test_results_that_do_not_count_are_made_anew(bridge: Log, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with Sandbox() as box:
        list(box.batch([Job("end lost lost", job_id="a"), Job("print b", job_id="b")], results=path))
        assert [done.job.id for done in box.batch([Job("print a", job_id="a")], results=path, retry=["lost"])] == ["a"]
        assert list(box.batch([Job("print a", job_id="a")], results=path, retry=["lost"])) == []
    assert [one["job"] for one in bridge.frames("run")].count("a") == 1  # The fleet runs an id once.


def test_a_file_of_results_is_one_and_has_one_batch(bridge: Log, tmp_path: Path) -> None:
    path, notes = tmp_path / "results.jsonl", tmp_path / "notes.txt"
    notes.write_text("dear diary\nand so on")
    with Sandbox() as box:
        with pytest.raises(ValueError, match="line 1 is not a result"):
            box.batch([], results=notes)
        assert notes.read_text() == "dear diary\nand so on"
        with pytest.raises(ValueError, match="each job needs an id of its own"):
            list(box.batch(["print a"], results=path))
        twins = [Job("print a", job_id="a"), Job("print b", job_id="a")]
        with pytest.raises(ValueError, match="two jobs of the batch have the id a"):
            list(box.batch(twins, concurrency=1, results=path))
        if not OVER_HTTP:  # Windows has no such lock.
            with box.batch([], results=path), pytest.raises(BlockingIOError, match="another batch is writing"):
                box.batch([], results=path)
        assert list(box.batch([Job("print a", job_id="a")], results=path)) == []
