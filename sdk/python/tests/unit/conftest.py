"""Tests with the fake bridge: a process that speaks the frames."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

FAKE = Path(__file__).parents[1] / "fake/bridge.py"


class Log:
    """What the fake bridges were sent."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def frames(self, kind: str | None = None) -> list[dict[str, Any]]:
        text = self.path.read_text() if self.path.exists() else ""
        found = [json.loads(line) for line in text.splitlines()]
        return [one for one in found if kind in (None, one["type"])]


@pytest.fixture(autouse=True)
def bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    program = tmp_path / "thermae"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {FAKE} "$@"\n')
    program.chmod(0o755)
    log = tmp_path / "frames.jsonl"
    monkeypatch.setenv("THERMAE_BIN", str(program))
    monkeypatch.setenv("FAKE_LOG", str(log))
    return Log(log)
