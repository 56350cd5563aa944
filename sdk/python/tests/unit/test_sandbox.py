import gc
import json
import logging
import os
import threading
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from bridge_log import Log
from helpers import children, until
from over_http import of_the_embedded_fleet

from thermae import Accepted, Display, Job, Result, Sandbox, Started, Stdout, ThermaeError, ToolCall, errors, tool
from thermae._artifacts import plain_name


@tool
def add(a: int, b: int = 2) -> int:
    return a + b


def test_a_program_runs_and_its_job_is_what_was_said(bridge: Log) -> None:
    with Sandbox(tools=[add]) as box:
        result = box.run("print hello\njob", timeout=5, labels={"a": "b"})
        assert box.facts == {"tenant": "acme", "embedded": True}
    assert result.ok
    assert isinstance(result, Result)
    first, job = result.stdout.splitlines()
    assert first == "hello"
    assert json.loads(job)["limits"] == {"wall_ms": 5000}
    assert [one["name"] for one in json.loads(job)["tools"]] == ["add"]
    assert "stream" not in json.loads(job)
    # Closing a sandbox does not wait until the other end has read all: over HTTP, that is another process.
    until(lambda: bridge.frames("eof"))
    kinds = [one["type"] for one in bridge.frames()]
    assert kinds == ["start", "hello", "open", "check_tools", "run", "close", "eof"]
    assert bridge.frames("hello")[0]["versions"] == [1]


def test_a_run_can_have_tools_of_its_own() -> None:
    with Sandbox(tools=[add]) as box:
        assert "tools" not in json.loads(box.run("job", tools=[]).stdout)
        assert json.loads(box.run("job", tools=[test_a_notebook_runs_code]).stdout)["tools"][0]["name"] == (
            "test_a_notebook_runs_code"
        )
        assert "tools" not in json.loads(box.run("job", language="bash").stdout)


def test_a_sandbox_opens_with_its_first_run_and_can_be_closed_twice(bridge: Log) -> None:
    box = Sandbox()
    assert not bridge.frames()
    assert box.run("print a").stdout == "a\n"
    box.close()
    box.close()
    with pytest.raises(errors.SandboxClosed):
        box.run("print a")


def test_a_program_that_failed_is_a_result_and_a_job_that_never_ran_is_an_error() -> None:
    with Sandbox() as box:
        failed = box.run("print a\nend failed code_raised")
        assert (failed.ok, failed.status, failed.stdout) == (False, "failed", "a\n")
        assert failed.error is not None
        assert failed.error.traceback == "T"
        with pytest.raises(errors.CodeRaised) as raised:
            box.run("print a\nend failed code_raised", check=True)
        assert raised.value.result is not None
        assert raised.value.result.stdout == "a\n"
        for status, code in (("rejected", "limit_too_high"), ("lost", "worker_lost")):
            with pytest.raises(errors.class_for(code), match=f"it is {code}"):
                box.run(f"end {status} {code}", job_id="mine")
        with pytest.raises(ThermaeError) as unknown:
            box.run("end rejected code_of_tomorrow")
        assert unknown.value.code == "code_of_tomorrow"


def test_a_stream_gives_all_events_and_the_result_last() -> None:
    with Sandbox(tools=[add]) as box:
        stream = box.stream("print a\nunknown\ndisplay d\ncall add {}", tools=[tool(lambda: 1, name="add")])
        events = list(stream)
    assert [type(one) for one in events] == [Accepted, Started, Stdout, Display, ToolCall, Stdout, Result]
    assert events[-1] is stream.result
    assert {one.job_id for one in events} == {stream.job_id}
    assert events[4].arguments == {}  # type: ignore[union-attr]


def test_a_stream_does_not_raise_for_a_job_that_never_ran() -> None:
    with Sandbox() as box:
        *_, last = box.stream("end rejected no_worker")
    assert isinstance(last, Result)
    assert last.status == "rejected"


def test_callbacks_see_what_they_asked_for_in_the_callers_thread() -> None:
    seen: list[tuple[str, Any, threading.Thread]] = []

    def see(kind: str) -> Any:
        return lambda value: seen.append((kind, value, threading.current_thread()))

    with Sandbox(tools=[add]) as box:
        result = box.run(
            'print a\ndisplay d\ncall add {"a": 1}',
            on_stdout=see("out"),
            on_stderr=see("err"),
            on_display=see("display"),
            on_tool_call=see("call"),
        )
        assert result.ok
    assert [(kind, value if kind != "call" else value.tool) for kind, value, _ in seen] == [
        ("out", "a\n"),
        ("display", {"text/plain": "d"}),
        ("call", "add"),
        ("out", '{"ok": 3}\n'),
    ]
    assert {thread for *_, thread in seen} == {threading.current_thread()}


def test_a_callback_that_raises_cancels_the_job(bridge: Log) -> None:
    def boom(text: str) -> None:
        raise ZeroDivisionError(text)

    with Sandbox() as box:
        with pytest.raises(ZeroDivisionError, match="a"):
            box.run("print a\nwait", on_stdout=boom)
        until(lambda: bridge.frames("cancel"))


def test_a_stream_that_is_left_early_cancels_its_job(bridge: Log) -> None:
    with Sandbox() as box:
        with box.stream("print a\nwait") as stream:
            next(stream)
        until(lambda: len(bridge.frames("cancel")) == 1)
        for _ in box.stream("print a\nwait"):
            break
        gc.collect()
        until(lambda: len(bridge.frames("cancel")) == 2)
        assert box.run("print b").stdout == "b\n"


def test_a_job_can_be_cancelled_by_its_id() -> None:
    with Sandbox() as box:
        ended: list[Result] = []
        thread = threading.Thread(target=lambda: ended.append(box.run("wait", job_id="mine")))
        thread.start()
        until(lambda: box.cancel("mine"))
        thread.join()
        assert ended[0].status == "cancelled"
        assert not box.cancel("mine")
        stream = box.stream("print a\nwait")
        next(stream)
        stream.cancel()
        assert [type(one).__name__ for one in stream][-1] == "Result"


def test_large_output_passes_through_the_window(bridge: Log) -> None:
    with Sandbox() as box:
        size = 4 << 20
        got: list[str] = []
        result = box.run(f"big {size}", on_stdout=got.append)
        assert len(result.stdout) == len("".join(got)) == size
    assert sum(one["bytes"] for one in bridge.frames("credit")) > size - (1 << 20)


def test_a_slow_reader_holds_nobody_else_up() -> None:
    with Sandbox() as box:
        slow = box.stream("big 8000000")
        next(slow)
        assert box.run("big 2000000").ok
        assert len([one for one in slow if isinstance(one, Stdout)]) == 8000000 // 65536


def test_sessions_keep_their_name_and_end_with_their_block(bridge: Log) -> None:
    with Sandbox() as box:
        with box.session(idle=60, if_gone="new", reset=True, pool="p") as session:
            first = json.loads(session.run("job").stdout)
            assert first["session"] == {"id": session.name, "if_gone": "new", "reset": True, "idle_ms": 60000}
            assert first["pool"] == "p"
            with box.session("c", checkpoint="after_job", checkpoint_ttl=1.5, restore="d") as other:
                wish = {"checkpoint": "after_job", "checkpoint_ttl_ms": 1500, "restore": "d"}
                for _ in range(2):
                    assert json.loads(other.run("job").stdout)["session"] == {"id": "c", "if_gone": "fail", **wish}
            assert "reset" not in json.loads(session.run("job").stdout)["session"]
            assert [one.id for one in box.sessions()] == [session.name]
            assert box.sessions()[0].expires_in == 270
        assert box.sessions() == []
        with pytest.raises(errors.SandboxClosed):
            session.run("print a")
        jobs = len(bridge.frames("run"))
        with box.session("unused"):
            pass
        assert len(bridge.frames("run")) == jobs, "a session that never ran was closed"


def test_a_session_that_is_detached_lives_on() -> None:
    with Sandbox() as box:
        with box.session("mine") as session:
            session.run("print a")
            assert session.detach() == "mine"
        assert [one.id for one in box.sessions()] == ["mine"]
        with box.connect("mine") as again:
            state = again.run("print b").session
            assert state is not None
            assert not state.fresh
            again.keepalive()
        assert [one.id for one in box.sessions()] == ["mine"]
        box.connect("mine").close()
        assert box.sessions() == []


def test_a_session_that_is_not_there_is_told() -> None:
    with Sandbox() as box:
        with pytest.raises(errors.SessionNotFound, match="no session nowhere"):
            box.connect("nowhere")
        assert box.sessions() == [], "looking for a session has made it"
        with box.session("s") as session:
            session.run("print gone")
            with pytest.raises(errors.SessionExpired):
                session.run("print a")
            with pytest.raises(errors.SessionNotFound):
                box.connect("s")


def test_a_batch_gives_every_result_once() -> None:
    jobs = [Job(f"print {n}" if n % 3 else "end failed code_raised") for n in range(40)]
    with Sandbox() as box:
        batch = box.batch(jobs, concurrency=7)
        assert batch.progress.total == 40
        items = list(batch)
        assert sorted(one.index for one in items) == list(range(40))
        assert all(one.job is jobs[one.index] for one in items)
        assert all(one.result.stdout == f"{one.index}\n" for one in items if one.result.ok)
        assert (batch.progress.done, batch.progress.statuses) == (40, {"succeeded": 26, "failed": 14})
        lazy = box.batch((f"print {n}" for n in range(3)), labels={"a": "b"})
        assert lazy.progress.total is None
        assert {one.job.options["labels"]["a"] for one in lazy} == {"b"}
        assert [one.result.status for one in box.batch(["end rejected no_worker"])] == ["rejected"]


def test_a_batch_takes_jobs_as_there_is_room_and_cancels_the_rest(bridge: Log) -> None:
    taken: list[tuple[int, threading.Thread]] = []

    def jobs() -> Any:
        for n in range(100):
            taken.append((n, threading.current_thread()))
            yield "print a" if n == 0 else "wait"

    with Sandbox() as box:
        batch = box.batch(jobs(), concurrency=3)
        assert next(batch).index == 0
        batch.close()
        assert taken == [(n, threading.current_thread()) for n in range(3)]
        until(lambda: len(bridge.frames("cancel")) == 2)


def test_a_batch_raises_what_its_jobs_raise() -> None:
    def jobs() -> Any:
        yield "wait"
        raise KeyError("mine")

    with Sandbox() as box:
        with pytest.raises(KeyError, match="mine"):
            list(box.batch(jobs()))
        with pytest.raises(ThermaeError, match="queue_gone"):
            list(box.batch(["refuse queue_gone", "wait"]))
        with pytest.raises(ValueError, match="at least 1"):
            box.batch([], concurrency=0)


def test_artifacts_are_fetched_when_they_are_read(bridge: Log, tmp_path: Path) -> None:
    with Sandbox() as box:
        result = box.run("leave out/a.txt hello world\nleave b.txt other")
        first, second = result.artifacts
        assert (first.path, first.name, first.size) == ("out/a.txt", "a.txt", 11)
        assert not bridge.frames("artifact")
        assert first.read() == b"hello world"
        assert first.save(tmp_path) == tmp_path / "a.txt"
        assert (tmp_path / "a.txt").read_bytes() == b"hello world"
        with pytest.raises(FileExistsError):
            first.save(tmp_path)
        assert second.save(tmp_path / "a.txt", overwrite=True).read_bytes() == b"other"
        inline = box.run("leave a hello", inline_artifacts=True).artifacts[0]
        fetched = len(bridge.frames("artifact"))
        assert inline.read() == b"hello"
        assert len(bridge.frames("artifact")) == fetched
        assert json.loads(box.run("job", files={"in": first}).stdout)["files"] == [{"path": "in", "ref": first.id}]


def test_a_damaged_artifact_is_never_saved(tmp_path: Path) -> None:
    with Sandbox() as box:
        (bad,) = box.run("leave damaged hello").artifacts
        with pytest.raises(errors.ArtifactDamaged):
            bad.save(tmp_path)
        assert list(tmp_path.glob("*damaged*")) + list(tmp_path.glob(".*")) == []
    leaving = {PurePosixPath: ["", "..", "a/b", "a\0"], PureWindowsPath: ["..\\a", "a/b", "C:a", "a:b", "\\\\a\\b"]}
    for kind, names in leaving.items():
        assert plain_name("a.txt", kind) == "a.txt"
        for name in names:
            with pytest.raises(ValueError, match="no name for a file"):
                plain_name(name, kind)
    assert plain_name("a:b\\c", PurePosixPath) == "a:b\\c"


@of_the_embedded_fleet
def test_a_fleet_that_cant_be_opened_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_OPEN", "embedded_unavailable")
    with pytest.raises(errors.EmbeddedUnavailable) as raised, Sandbox():
        pass
    assert "thermae doctor" in raised.value.advice
    monkeypatch.setenv("FAKE_OPEN", "broker_denied")
    with pytest.raises(ThermaeError, match="broker_denied") as denied, Sandbox("amqp://u:secret@h"):
        pass
    assert "secret" not in str(denied.value)


def test_a_fleet_that_reads_other_jobs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PROTOCOLS", "[2, 3]")
    with pytest.raises(errors.UnsupportedProtocol, match="writes protocol 1; the fleet reads 2, 3"), Sandbox():
        pass


def test_a_bridge_of_another_version_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VERSION", "7")
    with pytest.raises(ThermaeError, match="unsupported_version: versions 7"), Sandbox():
        pass


@of_the_embedded_fleet
def test_nothing_secret_is_logged_or_shown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "thermae"), Sandbox("amqps://me:hush@host:5671") as box:
        box.run("print a")
        assert "hush" not in repr(box)
    assert repr(box) == "<Sandbox amqps://me:…@host:5671>"
    assert caplog.records
    assert "hush" not in caplog.text


def test_a_sandbox_that_is_dropped_ends_its_bridge() -> None:
    before = children(os.getpid())
    box = Sandbox()
    box.run("print a")
    del box
    gc.collect()
    until(lambda: children(os.getpid()) == before)


def test_a_job_has_its_options_already() -> None:
    with Sandbox() as box:
        assert box.run(Job("print a")).ok
        with pytest.raises(TypeError, match="a Job has its options already: timeout"):
            box.run(Job("print a"), timeout=3)
        with pytest.raises(TypeError, match="unknown options: tiemout"):
            box.run("print a", tiemout=3)  # type: ignore[call-arg]


def test_threads_share_a_sandbox() -> None:
    with Sandbox() as box:
        results: dict[int, str] = {}

        def work(n: int) -> None:
            results[n] = box.run(f"print {n}").stdout

        threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {n: f"{n}\n" for n in range(20)}


def test_a_notebook_runs_code() -> None:
    """A loop runs already, as in a notebook's cell."""
    import asyncio

    async def cell() -> str:
        with Sandbox(tools=[add]) as box:
            return box.run('call add {"a": 1}').stdout

    assert asyncio.run(cell()) == '{"ok": 3}\n'
