"""Tests with the fake bridge: a process that speaks the frames.

If the tests are to reach their fleet through a gateway, the bridge is behind a fake one, and sandboxes without a URL
are there.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bridge_log import Log
from other_systems import OVER_HTTP

FAKE = Path(__file__).parents[1] / "fake/bridge.py"


@pytest.fixture(autouse=True)
def bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    program = tmp_path / "thermae"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {FAKE} "$@"\n')
    program.chmod(0o755)
    log = tmp_path / "frames.jsonl"
    monkeypatch.setenv("FAKE_BIN", str(program))
    monkeypatch.setenv("FAKE_LOG", str(log))
    if not OVER_HTTP:
        monkeypatch.setenv("THERMAE_BIN", str(program))
        yield Log(log)
        return
    from fake_gateway import KEY, FakeGateway  # Nobody else needs the server.

    monkeypatch.setenv("FAKE_EMBEDDED", "1")
    gateway = FakeGateway()
    monkeypatch.setenv("THERMAE_URL", gateway.url)
    monkeypatch.setenv("THERMAE_API_KEY", KEY)
    yield Log(log, gateway.settle)
    gateway.stop()


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of a fleet that does not end with its connection."""
    monkeypatch.delenv("FAKE_EMBEDDED", raising=False)
    return os.environ["THERMAE_URL"] if OVER_HTTP else "amqp://fleet"
