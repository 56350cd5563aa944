"""Results of jobs that no fleet has run."""

import json
from collections.abc import AsyncIterator
from typing import Any

from thermae._events import Ended, read_event
from thermae._results import AsyncResult, read_result


async def nothing(ref: str, url: str | None) -> AsyncIterator[bytes]:
    """Fetches no artifact."""
    raise AssertionError
    yield b""


def result(**fields: Any) -> AsyncResult:
    """The result in an event with these fields."""
    payload = json.dumps({"protocol": 1, "job": "j", "attempt": 2, "event": "result", "status": "succeeded", **fields})
    event = read_event(payload.encode())
    assert isinstance(event, Ended)
    return read_result(event.job_id, event.outcome, nothing)
