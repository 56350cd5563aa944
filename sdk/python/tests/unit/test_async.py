import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from bridge_log import Log
from helpers import on_a_loop, over_once, soon
from over_http import of_the_bridge, of_the_embedded_fleet

from thermae import AsyncResult, AsyncSandbox, Job, ThermaeError, errors


@on_a_loop
async def test_run_stream_session_batch_and_artifacts(tmp_path: Path) -> None:
    async def add(a: int) -> int:
        return a + 1

    async with AsyncSandbox(tools=[add]) as box:
        assert (await box.run('call add {"a": 1}')).stdout == '{"ok": 2}\n'
        events = [one async for one in box.stream("print a")]
        assert isinstance(events[-1], AsyncResult)
        async with box.session() as session:
            await session.run("print a")
            await session.keepalive()
            assert [one.id for one in await box.sessions()] == [session.name]
            async with await box.connect(session.name) as again:
                assert (await again.run("print b")).stdout == "b\n"
        assert await box.sessions() == []
        with pytest.raises(errors.SessionNotFound):
            await box.connect("nowhere")
        batch = box.batch([f"print {n}" for n in range(10)], concurrency=3)
        items = [one async for one in batch]
        assert sorted(one.index for one in items) == list(range(10))
        assert batch.progress.done == 10
        artifact = (await box.run("leave a.txt hello")).artifacts[0]
        assert await artifact.read() == b"hello"
        assert (await artifact.save(tmp_path)).read_bytes() == b"hello"


@on_a_loop
async def test_callbacks_can_be_async() -> None:
    seen: list[str] = []

    async def see(text: str) -> None:
        await asyncio.sleep(0)
        seen.append(text)

    async with AsyncSandbox() as box:
        await box.run("print a\nprint b", on_stdout=see)
    assert seen == ["a\n", "b\n"]


@on_a_loop
async def test_a_thousand_runs_at_once() -> None:
    async with AsyncSandbox() as box:
        results = await asyncio.gather(*(box.run(f"print {n}") for n in range(1000)))
    assert [one.stdout for one in results] == [f"{n}\n" for n in range(1000)]


@on_a_loop
async def test_a_cancelled_task_cancels_its_job(bridge: Log) -> None:
    async with AsyncSandbox() as box:
        task = asyncio.create_task(box.run("wait", job_id="mine"))
        await soon(lambda: bridge.frames("run"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await soon(lambda: bridge.frames("cancel"))
        assert box.under_way == {}
        assert bridge.frames("cancel")[0]["id"] == bridge.frames("run")[0]["id"]
        assert (await box.run("print a")).ok


@on_a_loop
async def test_a_run_in_a_timeout_is_cancelled(bridge: Log) -> None:
    async with AsyncSandbox() as box:
        with pytest.raises(TimeoutError):
            async with over_once(lambda: bridge.frames("run")):
                await box.run("wait")
        await soon(lambda: bridge.frames("cancel"))


@on_a_loop
async def test_a_fleet_that_never_answers_is_given_up(bridge: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncSandbox() as box:
        # The bridge is there, so the times that follow are those of the run alone.
        assert (await box.run("print a")).ok
        monkeypatch.setattr("thermae._request.GRACE", 0.1)
        with pytest.raises(errors.NoAnswer) as raised:
            await box.run("hold", timeout=0.05, start_within=0.05, job_id="mine")
        assert raised.value.request_id == "mine"
        await soon(lambda: bridge.frames("cancel"))


@on_a_loop
async def test_a_stream_that_is_left_early_cancels_its_job(bridge: Log) -> None:
    async with AsyncSandbox() as box:
        async with box.stream("print a\nwait") as stream:
            async for _ in stream:
                break
        await soon(lambda: len(bridge.frames("cancel")) == 1)
        async for _ in box.stream("print a\nwait"):
            break
        await soon(lambda: len(bridge.frames("cancel")) == 2)


@on_a_loop
async def test_a_batch_reads_an_async_source_and_cancels_what_is_left(bridge: Log) -> None:
    async def jobs() -> AsyncIterator[str | Job]:
        yield "print a"
        while True:
            yield "wait"

    async with AsyncSandbox() as box:
        batch = box.batch(jobs(), concurrency=3)
        assert (await anext(batch)).index == 0
        await soon(lambda: len(bridge.frames("run")) >= 3)
        await batch.aclose()
        await soon(lambda: len(bridge.frames("cancel")) >= 2)

        async def broken() -> AsyncIterator[str]:
            yield "wait"
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            async for _ in box.batch(broken()):
                pass


@pytest.mark.parametrize("how", ["wait", "unsubmitted"])
@on_a_loop
async def test_cancel_by_id(how: str) -> None:
    async with AsyncSandbox() as box:
        task = asyncio.create_task(box.run(how, job_id="mine"))
        await soon(lambda: box.under_way)
        await soon(lambda: box.under_way["mine"]._request is not None)
        assert await box.cancel("mine")
        result = await task
        assert result.status == "cancelled"
        assert result.error is not None
        assert result.error.code == "cancelled"
        assert not await box.cancel("mine")


def test_a_sandbox_belongs_to_its_loop() -> None:
    box = AsyncSandbox()

    async def first() -> None:
        await box.run("print a")

    async def second() -> None:
        with pytest.raises(errors.WrongLoopError):
            await box.run("print a")

    async def both() -> None:
        await first()
        await asyncio.to_thread(asyncio.run, second())
        await box.close()

    asyncio.run(both())


@on_a_loop
async def test_what_is_under_way_ends_with_the_sandbox() -> None:
    box = AsyncSandbox()
    async with box:
        task = asyncio.create_task(box.run("wait"))
        await soon(lambda: box.under_way and next(iter(box.under_way.values()))._request)
    with pytest.raises(errors.ConnectionLost, match="closed"):
        await task
    with pytest.raises(errors.SandboxClosed):
        await box.run("print a")


@on_a_loop
async def test_an_open_that_is_cancelled_leaves_nothing(bridge: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    box = AsyncSandbox()
    monkeypatch.setenv("FAKE_OPENS", "never")
    task = asyncio.create_task(box.connection())
    await soon(lambda: bridge.frames("open"))
    task.cancel()
    monkeypatch.delenv("FAKE_OPENS")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await box.run("print a")).ok
    await box.close()


@on_a_loop
async def test_many_first_runs_open_one_bridge(bridge: Log) -> None:
    box = AsyncSandbox()
    await asyncio.gather(*(box.run("print a") for _ in range(20)))
    assert len(bridge.frames("start")) == 1
    await box.close()


@of_the_bridge
@on_a_loop
async def test_the_death_of_an_embedded_fleet_is_told_and_not_hidden() -> None:
    async with AsyncSandbox() as box:
        other = asyncio.create_task(box.run("wait", job_id="other"))
        await soon(lambda: box.under_way)
        with pytest.raises(errors.ConnectionLost, match="said last: the bridge dies") as raised:
            await box.run("die", job_id="mine")
        assert raised.value.request_id == "mine"
        with pytest.raises(errors.ConnectionLost):
            await other
        with pytest.raises(errors.ConnectionLost, match="sessions"):
            await box.run("print a")


@of_the_embedded_fleet
@on_a_loop
async def test_the_error_of_a_block_is_told_and_not_that_of_its_end() -> None:
    async def block(box: AsyncSandbox, error: Exception | None) -> None:
        async with box.session() as session:
            with contextlib.suppress(errors.ConnectionLost):
                await session.run("die")
            if error:
                raise error

    async with AsyncSandbox() as box:
        with pytest.raises(KeyError, match="mine"):
            await block(box, KeyError("mine"))
    async with AsyncSandbox() as box:
        with pytest.raises(errors.ConnectionLost):
            await block(box, None)


@on_a_loop
async def test_bytes_that_are_no_frame_end_the_connection() -> None:
    async with AsyncSandbox() as box:
        with pytest.raises(errors.ConnectionLost, match="broke"):
            await box.run("bad\nwait")


@on_a_loop
async def test_a_job_that_no_frame_can_hold_comes_in_parts() -> None:
    text = "0123456789abcde" * (3 << 20)
    async with AsyncSandbox() as box:
        large = box.run("stdin", stdin=text)
        results = await asyncio.gather(large, *(box.run(f"print {n}") for n in range(5)))
        assert results[0].stdout == f"{len(text)} {hashlib.sha256(text.encode()).hexdigest()}\n"
        assert [result.stdout for result in results[1:]] == [f"{n}\n" for n in range(5)]


@on_a_loop
async def test_a_transient_error_is_retried_under_the_same_id(bridge: Log, remote: str) -> None:
    async with AsyncSandbox(remote) as box:
        result = await box.run("refuse_once queue_full\njob", job_id="mine")
        assert json.loads(result.stdout)["id"] == "mine"
        assert [one["job"] for one in bridge.frames("run")] == ["mine", "mine"]
        with pytest.raises(ThermaeError, match="queue_full"):
            await box.run("refuse queue_full", job_id="never", max_retries=1)
        assert [one["job"] for one in bridge.frames("run")][2:] == ["never", "never"]
        with pytest.raises(ThermaeError, match="queue_full"):
            await box.run("refuse_once queue_full", max_retries=0)
        for code in ("broker_denied", "bad_url"):
            with pytest.raises(ThermaeError, match=code):
                await box.run(f"refuse_once {code}")
        assert len(bridge.frames("run")) == 7


@on_a_loop
async def test_an_outcome_is_never_retried(bridge: Log, remote: str) -> None:
    async with AsyncSandbox(remote) as box:
        with pytest.raises(errors.NoWorker):
            await box.run("end rejected no_worker")
        assert len(bridge.frames("run")) == 1


@on_a_loop
async def test_a_lost_connection_to_a_fleet_is_opened_anew(bridge: Log, remote: str) -> None:
    async with AsyncSandbox(remote) as box:
        with pytest.raises(errors.ConnectionLost):
            await box.run("die", max_retries=1, job_id="mine")
        assert [one["job"] for one in bridge.frames("run")] == ["mine", "mine"]
        assert (await box.run("print a")).ok
        assert len(bridge.frames("start")) == 3


@of_the_bridge
@on_a_loop
async def test_a_bridge_that_does_not_read_can_still_be_left() -> None:
    box = AsyncSandbox()
    await box.run("print a")
    connection = await box.connection()
    import os
    import signal

    process = connection.transport._process  # type: ignore[attr-defined]
    os.kill(process.pid, signal.SIGSTOP)
    stuck = [asyncio.create_task(box.run("wait", stdin="x" * (4 << 20))) for _ in range(3)]
    await soon(lambda: connection.transport._frames._transport.get_write_buffer_size())  # type: ignore[attr-defined]
    for task in stuck:
        task.cancel()
    done = await asyncio.gather(*stuck, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in done)
    os.kill(process.pid, signal.SIGKILL)
    await box.close()
