"""Runs of a `Sandbox` that is open: the thread that waits for the result submits the job itself."""

import hashlib
import json
import os
import signal
import threading
from pathlib import Path

import pytest
from bridge_log import Log
from helpers import until
from over_http import of_the_bridge

from thermae import Sandbox, ThermaeError, errors
from thermae._connection import PART


def test_a_transient_error_is_retried_under_the_same_id(bridge: Log, remote: str) -> None:
    with Sandbox(remote) as box:
        result = box.run("refuse_once queue_full\njob", job_id="mine")
        assert json.loads(result.stdout)["id"] == "mine"
        assert [one["job"] for one in bridge.frames("run")] == ["mine", "mine"]
        with pytest.raises(ThermaeError, match="queue_full"):
            box.run("refuse queue_full", max_retries=0)
        assert len(bridge.frames("run")) == 3
        with pytest.raises(ThermaeError, match="queue_full"):
            box.run("refuse queue_full", max_retries=1)
        assert len(bridge.frames("run")) == 5
        with pytest.raises(ThermaeError, match="bad_url"):
            box.run("refuse bad_url")
        assert len(bridge.frames("run")) == 6
        assert box._async.under_way == {}


@pytest.mark.parametrize("how", ["wait", "unsubmitted"])
def test_a_job_is_cancelled_by_its_id(how: str) -> None:
    with Sandbox() as box:
        statuses: list[str] = []
        running = threading.Thread(target=lambda: statuses.append(box.run(how, job_id="mine").status))
        running.start()
        until(lambda: box.cancel("mine"))
        running.join()
        assert statuses == ["cancelled"]
        assert not box.cancel("mine")


def test_a_fleet_that_never_answers_is_given_up(bridge: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox() as box:
        # The bridge is there, so the times that follow are those of the run alone.
        assert box.run("print a").ok
        monkeypatch.setattr("thermae._request.GRACE", 0.1)
        with pytest.raises(errors.NoAnswer) as raised:
            box.run("hold", timeout=0.05, start_within=0.05, job_id="mine")
        assert raised.value.request_id == "mine"
        until(lambda: bridge.frames("cancel"))


@of_the_bridge
def test_the_death_of_the_fleet_and_its_end_are_told() -> None:
    with Sandbox() as box:
        with pytest.raises(errors.ConnectionLost, match="said last: the bridge dies") as raised:
            box.run("die", job_id="mine")
        assert raised.value.request_id == "mine"
        with pytest.raises(errors.ConnectionLost, match="sessions"):
            box.run("print a")
    box = Sandbox()
    box.run("print a")
    told: list[str] = []

    def run() -> None:
        try:
            box.run("wait")
        except errors.ConnectionLost as error:
            told.append(error.message)

    running = threading.Thread(target=run)
    running.start()
    until(lambda: box._async.under_way)
    box.close()
    running.join()
    assert told == ["the sandbox was closed"]


@pytest.mark.parametrize("size", [PART, 33 << 20])
def test_a_job_that_no_frame_can_hold_comes_in_parts(size: int) -> None:
    text = "0123456789abcde" * (size // 15 + 1)
    with Sandbox() as box:
        assert box.run("stdin", stdin=text).stdout == f"{len(text)} {hashlib.sha256(text.encode()).hexdigest()}\n"
        assert box.run("print a").ok


def test_jobs_wait_while_the_bridge_takes_nothing(bridge: Log) -> None:
    with Sandbox() as box:
        assert box.run("print a").ok
        pid = bridge.frames("start")[0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        # Together, they are larger than the socket's buffer.
        results: list[int] = []
        size = 300_000
        code = f"print {'x' * size}"
        threads = [threading.Thread(target=lambda: results.append(len(box.run(code).stdout))) for _ in range(5)]
        for thread in threads:
            thread.start()
        until(lambda: len(box._async.under_way) == 5)
        os.kill(pid, signal.SIGCONT)
        for thread in threads:
            thread.join()
        assert results == [size + 1] * 5


def test_tools_are_called_beyond_the_window(bridge: Log) -> None:
    def echo(text: str) -> int:
        return len(text)

    with Sandbox(tools=[echo]) as box:
        size = 400_000
        arguments = json.dumps({"text": "x" * size})
        result = box.run("\n".join([f"call echo {arguments}"] * 6))
        assert result.stdout == f'{{"ok": {size}}}\n' * 6
        assert sum(one["bytes"] for one in bridge.frames("credit")) > 1 << 20


def test_a_file_that_cant_be_read_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    with Sandbox() as box:
        assert box.run("print a").ok
        with pytest.raises(OSError, match="nowhere"):
            box.run("print a", files={"a": tmp_path / "nowhere"})
        assert box._async.under_way == {}
