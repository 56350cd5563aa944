"""What the fake bridges wrote down."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Log:
    """What the fake bridges were sent. `settle` waits until all is there of connections that have ended."""

    def __init__(self, path: Path, settle: Callable[[], Any] = lambda: None) -> None:
        self.path = path
        self.settle = settle

    def frames(self, kind: str | None = None) -> list[dict[str, Any]]:
        self.settle()
        text = self.path.read_text() if self.path.exists() else ""
        found = [json.loads(line) for line in text.splitlines()]
        return [one for one in found if kind in (None, one["type"])]
