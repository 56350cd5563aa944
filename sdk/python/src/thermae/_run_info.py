"""What the fleet knows of a run."""

import base64
import json
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from thermae._events import Approval, ToolCall, read_approval

RunState: TypeAlias = Literal["queued", "running", "waiting", "paused", "ended", "unknown"]
"""State of a run. A newer fleet may know more of them."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call that waits for its answer.

    Attributes:
        job_id: Id of the run.
        call: Id of the call.
        tool: Name of the tool.
        arguments: The arguments as JSON values. `None` if they were too large to keep: only the process that followed
            the run when the call was made has seen them.
        waited: Seconds that the call has waited.
        left: Seconds that it goes on to wait. Then it fails.
    """

    job_id: str
    call: str
    tool: str
    arguments: dict[str, Any] | None
    waited: float
    left: float
    reply_to: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunOutput:
    """A part of what a run has written to standard output or standard error.

    Attributes:
        start: How many bytes come before this part.
        data: The bytes, at most 1 MiB.
        more: Whether more was written after this part. Ask for it with `end`.
    """

    start: int
    data: bytes
    more: bool

    @property
    def end(self) -> int:
        """How many bytes come before what follows this part: where to go on."""
        return self.start + len(self.data)

    @property
    def text(self) -> str:
        """The bytes as text. Bytes that are not UTF-8 are replaced."""
        return self.data.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run, as the fleet knows it.

    Attributes:
        id: Id of the run, which is that of its job.
        state: `queued` (the code has not started), `running`, `waiting` (all its tasks wait for answers), `paused` (it
            has waited for so long that it holds no slot), `ended`, or `unknown` (the fleet has no record of it: it was
            not submitted, still waits in its queue, or was forgotten).
        attempt: Number of the attempt, from 1; 0 if there is none.
        worker: Id of the worker that runs the code.
        calls: The tool calls that wait for answers, the oldest first.
        approvals: The tool calls that wait for approval, the oldest first. `Run.decide` decides about them.
        stdout: Standard output from where `info` was asked to begin. Empty once the run has ended: the result has it.
        stderr: Standard error, likewise.
    """

    id: str
    state: RunState
    attempt: int
    worker: str | None
    calls: list[PendingCall] = field(repr=False)
    approvals: list[Approval] = field(repr=False)
    stdout: RunOutput = field(repr=False)
    stderr: RunOutput = field(repr=False)


def read_info(payload: bytes, stdout_from: int, stderr_from: int) -> RunInfo:
    """The run in an event `run`."""
    raw = json.loads(payload)
    job = raw["run"]
    return RunInfo(
        id=job,
        state=raw["state"],
        attempt=raw.get("attempt", 0),
        worker=raw.get("worker"),
        calls=[_pending(job, one) for one in raw.get("calls", ())],
        approvals=approvals_of(raw),
        stdout=_output(raw.get("stdout"), stdout_from),
        stderr=_output(raw.get("stderr"), stderr_from),
    )


def calls_of(raw: dict[str, Any]) -> list[ToolCall]:
    """The calls in an event `run` as events of their own. Calls whose arguments are missing are not among them."""
    return [
        ToolCall(raw["run"], one["call"], one["tool"], one["arguments"], one["left_ms"] / 1000, one["reply_to"])
        for one in raw.get("calls", ())
        if one.get("arguments") is not None
    ]


def approvals_of(raw: dict[str, Any]) -> list[Approval]:
    """The calls in an event `run` that wait for approval."""
    return [read_approval(raw["run"], one) for one in raw.get("approvals", ())]


def _pending(job: str, raw: dict[str, Any]) -> PendingCall:
    arguments, waited, left = raw.get("arguments"), raw["waited_ms"] / 1000, raw["left_ms"] / 1000
    return PendingCall(job, raw["call"], raw["tool"], arguments, waited, left, raw["reply_to"])


def _output(raw: dict[str, Any] | None, asked: int) -> RunOutput:
    if raw is None:
        return RunOutput(asked, b"", False)
    return RunOutput(raw["from"], base64.b64decode(raw["data"]), raw.get("more", False))
