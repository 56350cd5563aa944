"""What the fake bridges wrote down."""

import json
from pathlib import Path
from typing import Any


class Log:
    """What the fake bridges were sent."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def frames(self, kind: str | None = None) -> list[dict[str, Any]]:
        text = self.path.read_text() if self.path.exists() else ""
        found = [json.loads(line) for line in text.splitlines()]
        return [one for one in found if kind in (None, one["type"])]
