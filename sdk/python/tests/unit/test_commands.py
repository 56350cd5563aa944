import asyncio
import io
import json
import pickle
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from bridge_log import Log
from helpers import on_a_loop, over_once, soon, until

from thermae import AsyncSandbox, Sandbox, ThermaeError, errors

MEGABYTE = 1 << 20


def test_a_command_has_both_outputs_and_its_status() -> None:
    with Sandbox() as box, box.session() as session:
        result = session.exec("out a\nerr b\nraw ff\nexit 3")
        assert (result.status, result.exit_code, result.signal, result.ok) == ("exited", 3, None, False)
        assert (result.stdout, result.stderr) == (b"a\xff", b"b")
        assert (result.text, result.stderr_text) == ("a\ufffd", "b")
        assert (result.duration, result.timed_out) == (1.5, False)
        assert session.exec("out a").ok
        assert session.exec("slow").timed_out
        assert session.exec("hog").status == "out_of_memory"


def test_what_is_said_about_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox() as box, box.session("mine") as session:
        sent = json.loads(session.exec(["env"], cwd="a", env={"A": "1"}, timeout=2, input="é").text)
        assert len(sent.pop("id")) == 32
        assert sent == {
            "session": "mine",
            "exec": {"argv": ["env"], "cwd": "a", "env": {"A": "1"}},
            "timeout_ms": 2000,
            "input": "w6k=",
        }
        assert json.loads(session.exec("env", cwd=b"\xff").text)["exec"] == {"shell": "env", "cwd": [255]}
        monkeypatch.setenv("THERMAE_TIMEOUT", "7")
        assert json.loads(session.exec("env").text)["timeout_ms"] == 7000
        with pytest.raises(TypeError, match="colour"):
            session.exec("env", colour="red")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="input"):
            session.popen("env", input="red")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="texts"):
            session.exec([1])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="program"):
            session.exec([])
        with pytest.raises(ValueError, match="time"):
            session.exec("env", timeout=0)


def test_checked_commands_raise_with_their_result() -> None:
    with Sandbox() as box, box.session() as session:
        kinds = {
            "exit 3": errors.CodeExited,
            "slow": errors.WallTimeout,
            "hog": errors.OutOfMemory,
        }
        for command, kind in kinds.items():
            with pytest.raises(kind) as raised:
                session.exec(f"out a\nerr why\n{command}", check=True)
            assert raised.value.exec_result is not None
            assert raised.value.exec_result.stdout == b"a"
            assert raised.value.request_id == raised.value.exec_result.request_id != ""
            assert "why" in raised.value.message
            assert type(pickle.loads(pickle.dumps(raised.value))) is kind
        assert session.exec("out a", check=True).text == "a"


def test_errors_of_requests() -> None:
    with Sandbox() as box, box.session() as session:
        with pytest.raises(FileNotFoundError) as raised:
            session.exec("fail ENOENT nothing")
        assert (raised.value.filename, raised.value.errno) == ("nothing", 2)
        with pytest.raises(errors.RequestInterrupted) as interrupted:
            session.exec("refuse request_interrupted")
        assert len(interrupted.value.request_id) == 32
        assert interrupted.value.safe_to_retry, "what the fleet says counts"
        with pytest.raises(ThermaeError) as plain:
            session.exec("error hibernating")
        assert plain.value.code == "hibernating"
        with pytest.raises(ThermaeError, match="evaporated"):
            session.exec("mystery")


def test_too_much_output_kills_the_command(bridge: Log) -> None:
    with Sandbox() as box, box.session() as session:
        assert len(session.exec(f"big {3 * MEGABYTE}").stdout) == 3 * MEGABYTE
        with pytest.raises(errors.OutputLimit) as raised:
            session.exec(f"out begin\nbig {3 * MEGABYTE}\nwait", max_output="1MiB")
        result = raised.value.exec_result
        assert result is not None
        assert result.stdout.startswith(b"beginx")
        assert MEGABYTE < len(result.stdout) < 1.5 * MEGABYTE
        assert (result.status, result.ok) == ("output_limit", False)
        until(lambda: bridge.frames("cancel"))
        assert session.exec("out a").text == "a"


def numbers(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b"12345"


def test_input_of_every_kind(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x" * (5 * MEGABYTE + 1))
    with Sandbox() as box, box.session() as session:
        assert session.exec("cat").stdout == b""
        assert session.exec("cat", input="é").stdout == "é".encode()
        assert session.exec("cat", input=b"").stdout == b""
        assert session.exec("count", input=b"x" * (3 * MEGABYTE)).stdout == b"3145728"
        assert session.exec("cat", input=bytearray(b"y" * 70_000)).stdout == b"y" * 70_000
        assert session.exec("count", input=memoryview(b"x" * 100)).stdout == b"100"
        assert session.exec("count", input=large).stdout == str(5 * MEGABYTE + 1).encode()
        with open(large, "rb") as file:
            assert session.exec("count", input=file).stdout == str(5 * MEGABYTE + 1).encode()
        assert session.exec("cat", input=io.BytesIO(b"abc")).stdout == b"abc"
        assert session.exec("cat", input=numbers(3)).stdout == b"123451234512345"
        assert session.exec("cat", input=[b"a", b"", b"b"]).stdout == b"ab"
        # A command that does not read its input still ends.
        assert session.exec("exit 1", input=b"x" * (5 * MEGABYTE)).exit_code == 1


def test_a_source_of_input_that_fails_kills_the_command(bridge: Log, tmp_path: Path) -> None:
    def breaks() -> Iterator[bytes]:
        yield b"a"
        raise BrokenPipeError("mine")

    with Sandbox() as box, box.session() as session:
        with pytest.raises(BrokenPipeError, match="mine"):
            session.exec("cat\nwait", input=breaks())
        until(lambda: bridge.frames("cancel"))
        with pytest.raises(TypeError, match="pieces of bytes"):
            session.exec("cat", input=["text"])  # type: ignore[list-item]
        with pytest.raises(FileNotFoundError):
            session.exec("cat", input=tmp_path / "nothing")
        assert session.exec("out a").text == "a"


@on_a_loop
async def test_input_waits_for_the_command() -> None:
    taken = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(50):
            taken += 1
            yield b"x" * 100_000

    async with AsyncSandbox() as box, box.session() as session:
        process = await session.popen("wait", stdin=True)
        writing = asyncio.create_task(process.stdin.write(b"x" * (2 * MEGABYTE)))
        await asyncio.wait({writing}, timeout=0.2)
        assert not writing.done(), "more input was sent than the window allows"
        process.kill()
        assert (await process.wait()).status == "cancelled"
        with pytest.raises(BrokenPipeError):
            await writing
        assert (await session.exec("count", input=source())).text == "5000000"
        assert taken == 50
        task = asyncio.create_task(session.exec("wait", input=source()))
        await soon(lambda: taken >= 60)
        task.cancel()
        await asyncio.wait({task})
        assert taken < 64


def test_a_command_can_be_talked_to(bridge: Log) -> None:
    with Sandbox() as box, box.session() as session:
        with session.popen("out a\ncat\nerr c", stdin=True) as process:
            assert next(process) == ("stdout", b"a")
            process.stdin.write(b"hello")
            assert next(process).data == b"hello"
            process.stdin.write(b"")
            process.stdin.close()
            process.stdin.close()
            with pytest.raises(ValueError, match="closed"):
                process.stdin.write(b"more")
            assert [*process] == [("stderr", b"c")]
            result = process.result
            assert result is not None
            assert (result.ok, result.stdout) == (True, b"")
            assert process.wait() is result
            assert [*process] == []
        with session.popen("out a\nout b") as process:
            assert next(process).data == b"a"
            assert process.wait().stdout == b"b"
            assert process.wait().stdout == b"b"
        assert bridge.frames("cancel") == []
        with pytest.raises(ValueError, match="stdin=True"):
            session.popen("cat").stdin.write(b"a")


def test_a_command_can_be_ended(bridge: Log) -> None:
    with Sandbox() as box, box.session() as session:
        process = session.popen("wait")
        process.terminate()
        result = process.wait()
        assert (result.status, result.signal, result.exit_code) == ("signaled", 15, None)
        with pytest.raises(errors.CodeKilled):
            result.raise_for_status()
        process.send_signal(2)
        process = session.popen("wait")
        process.send_signal(10)
        assert process.wait().signal == 10
        process = session.popen("out a\nwait")
        assert next(process).data == b"a"
        process.kill()
        assert process.wait().status == "cancelled"
        killed = process.wait()
        with pytest.raises(errors.Cancelled):
            killed.raise_for_status()
        assert len(bridge.frames("cancel")) == 1
        with session.popen("wait") as process:
            pass
        until(lambda: len(bridge.frames("cancel")) == 2)
        with pytest.raises(errors.SandboxClosed):
            process.wait()
        process = session.popen("wait")
        del process
        until(lambda: len(bridge.frames("cancel")) == 3)
        process = session.popen("fail EACCES sh")
        for _ in range(2):
            with pytest.raises(PermissionError):
                process.wait()


@on_a_loop
async def test_commands_on_a_loop(bridge: Log) -> None:
    async with AsyncSandbox() as box, box.session() as session:
        async with await session.popen("out a\nerr b\nwait") as process:
            pieces = []
            async for stream, data in process:
                pieces.append((stream, data))
                if len(pieces) == 2:
                    process.terminate()
            assert pieces == [("stdout", b"a"), ("stderr", b"b")]
            assert process.result is not None
            assert process.result.signal == 15
        results = await asyncio.gather(*(session.exec(f"out {n}") for n in range(200)))
        assert [one.text for one in results] == [str(n) for n in range(200)]
        assert bridge.frames("cancel") == []
        task = asyncio.create_task(session.exec("wait"))
        await soon(lambda: len(bridge.frames("request")) == 202)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await soon(lambda: bridge.frames("cancel"))
        with pytest.raises(TimeoutError):
            async with over_once(lambda: len(bridge.frames("request")) == 203):
                await session.exec("wait")
        await soon(lambda: len(bridge.frames("cancel")) == 2)


@on_a_loop
async def test_a_wait_that_is_given_up_loses_nothing() -> None:
    async with AsyncSandbox() as box, box.session() as session:
        process = await session.popen("out begin\nwait")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await process.wait()
        process.terminate()
        result = await process.wait()
        assert (result.stdout, result.signal) == (b"begin", 15)


def test_a_source_that_blocks_for_ever_holds_nothing_up() -> None:
    never = threading.Event()

    def blocks() -> Iterator[bytes]:
        never.wait(60)
        yield b""

    with Sandbox() as box, box.session() as session:
        assert session.exec("exit 1", input=blocks()).exit_code == 1
    never.set()


@on_a_loop
async def test_output_that_nobody_takes_holds_up_its_command_alone() -> None:
    async with AsyncSandbox() as box, box.session() as session:
        process = await session.popen(f"big {8 * MEGABYTE}\nout end")
        await anext(process)
        assert (await session.exec("out a")).text == "a"
        size, last = 65536, b""
        async for _, last in process:
            size += len(last)
        assert (size, last) == (8 * MEGABYTE + 3, b"end")


@on_a_loop
async def test_a_fleet_that_never_answers_is_given_up(bridge: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncSandbox() as box, box.session() as session:
        # The session is there, so the times that follow are those of the request alone.
        assert (await session.exec("out a")).text == "a"
        monkeypatch.setattr("thermae._request.GRACE", 0.1)
        monkeypatch.setattr("thermae._requests.START_WITHIN", 0.1)
        with pytest.raises(errors.NoAnswer):
            await session.exec("wait", timeout=0.1)
        await soon(lambda: bridge.frames("cancel"))
