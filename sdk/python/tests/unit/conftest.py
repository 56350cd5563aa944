"""Tests with the fake bridge: a process that speaks the frames."""

import sys
from pathlib import Path

import pytest
from bridge_log import Log

FAKE = Path(__file__).parents[1] / "fake/bridge.py"


@pytest.fixture(autouse=True)
def bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    program = tmp_path / "thermae"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {FAKE} "$@"\n')
    program.chmod(0o755)
    log = tmp_path / "frames.jsonl"
    monkeypatch.setenv("THERMAE_BIN", str(program))
    monkeypatch.setenv("FAKE_LOG", str(log))
    return Log(log)
