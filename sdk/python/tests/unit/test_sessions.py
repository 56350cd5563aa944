"""Sessions: made on first use, and closed at the end of their blocks."""

import asyncio
import json
import threading
from typing import Any

import pytest
from bridge_log import Log
from helpers import on_a_loop, soon

from thermae import AsyncSandbox, Sandbox, ThermaeError, errors


def test_the_first_use_makes_the_session_once(bridge: Log) -> None:
    with Sandbox() as box, box.session() as first:
        threads = [threading.Thread(target=first.exec, args=["out a"]) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(bridge.frames("run")) == 1
        assert len(bridge.frames("request")) == 10
        first.keepalive()
        assert len(box.sessions()) == 1
        with box.session("mine", reset=True) as session:
            session.run("print a")
            session.exec("out a")
            session.keepalive()
            assert len(bridge.frames("run")) == 2
            with box.connect("mine") as again:
                assert again.exec("out a").ok
            assert len(bridge.frames("run")) == 2
            with box.connect("mine", idle=5) as again:
                assert again.exec("out a").ok
        assert len(box.sessions()) == 1
        with pytest.raises(errors.SandboxClosed):
            session.exec("out a")
        with pytest.raises(errors.SandboxClosed):
            session.files.exists("a")
    assert len(bridge.frames("run")) == 5
    with pytest.raises(errors.SandboxClosed):
        first.exec("out a")


def test_commands_and_files_are_a_sessions() -> None:
    for kind in (Sandbox, AsyncSandbox):
        assert not {"exec", "popen", "files", "keepalive"} & {*dir(kind)}


@on_a_loop
async def test_a_command_waits_until_the_first_run_has_made_the_session(bridge: Log) -> None:
    async with AsyncSandbox() as box, box.session() as session:
        running = asyncio.create_task(session.run("wait"))
        while not box.beginning:
            await asyncio.sleep(0)
        assert (await session.exec("out a")).text == "a"
        assert not running.done()
        assert box.beginning == {}
        order = [one["type"] for one in bridge.frames() if one["type"] in ("run", "request")]
        assert order == ["run", "request"]
        running.cancel()
        await asyncio.wait({running})
        await session.run("print a")
        assert "lifecycle" not in json.loads((await session.run("job")).stdout).get("stream", ())
        # A run that ends before its code started lets the command go on, too.
        other = box.session()
        refused = asyncio.create_task(other.run("refuse no_worker"))
        while not box.beginning:
            await asyncio.sleep(0)
        await other.exec("out a")
        assert isinstance((await asyncio.gather(refused, return_exceptions=True))[0], ThermaeError)


def test_a_session_that_nobody_used_is_not_made(bridge: Log, remote: str) -> None:
    with Sandbox(remote) as box, box.session() as session:
        session.exec("out a")
    assert len(bridge.frames("run")) == 2
    with Sandbox(remote) as box, box.session():
        box.run("print a")
    assert len(bridge.frames("run")) == 3


@on_a_loop
async def test_who_is_cancelled_does_not_unmake_the_session(bridge: Log) -> None:
    async with AsyncSandbox() as box, box.session() as session:
        first = asyncio.create_task(session.exec("out a"))
        await soon(lambda: bridge.frames("run"))
        first.cancel()
        assert (await session.exec("out b")).text == "b"
        await asyncio.wait({first})
        (made,) = bridge.frames("run")
        # The command itself is cancelled if the session was there by then.
        assert made["id"] not in [cancel["id"] for cancel in bridge.frames("cancel")]


@on_a_loop
async def test_a_session_that_could_not_be_made_is_made_by_the_next_use(monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncSandbox() as box, box.session("s", reset=True) as session:
        run, calls = session.run, 0

        async def fails_once(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                session.claim()
                raise errors.NoWorker("none")
            return await run(*args, **options)

        monkeypatch.setattr(session, "run", fails_once)
        both = await asyncio.gather(session.exec("out a"), session.exec("out a"), return_exceptions=True)
        assert [type(one) for one in both] == [errors.NoWorker] * 2
        assert (await session.exec("out a")).ok
        assert calls == 2


def test_a_session_that_is_gone_is_told() -> None:
    with Sandbox() as box, box.session(if_gone="new") as session:
        session.run("print gone")
        for _ in range(2):
            with pytest.raises(errors.SessionExpired):
                session.exec("out a")
            with pytest.raises(errors.SessionExpired):
                session.files.read("a")
            with pytest.raises(errors.SessionExpired):
                session.keepalive()
