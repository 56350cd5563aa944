"""What a running job tells: the events of a stream."""

import json
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from thermae._frames import BadFrameError

MimeBundle: TypeAlias = dict[str, Any]
"""A value in one or more forms, by MIME type. Binary forms are in base64."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The fleet accepted the job."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Started:
    """The code starts, on this worker."""

    job_id: str
    attempt: int
    worker: str


@dataclass(frozen=True, slots=True)
class Stdout:
    """Standard output of the code.

    Attributes:
        text: The output. Bytes that are not UTF-8 are replaced; the result has the exact bytes.
        seq: Number among the `Stdout` and `Stderr` events, from 0. A gap means that live output got lost; the result
            has all of it.
    """

    job_id: str
    text: str
    seq: int


@dataclass(frozen=True, slots=True)
class Stderr:
    """Standard error of the code; the fields are those of `Stdout`."""

    job_id: str
    text: str
    seq: int


@dataclass(frozen=True, slots=True)
class Display:
    """The code displayed something. The result contains it, too."""

    job_id: str
    data: MimeBundle


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The code calls a tool. The call is answered beside the stream: nobody has to do anything about it.

    Attributes:
        call: Id of the call.
        tool: Name of the tool.
        arguments: The arguments as JSON values, before they are coerced to the tool's hints.
        within: Seconds that the code waits for the answer.
    """

    job_id: str
    call: str
    tool: str
    arguments: dict[str, Any]
    within: float
    reply_to: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Audit:
    """What the fleet's audit log says about a tool call.

    Attributes:
        what: `call`: the code makes the call. `decision`: a call that needs approval has it, or does not get it. `end`:
            the call has ended, or was refused.
        call: Number of the call in the run.
        tool: Name of the tool, if it is known.
        token: Id of the run's capability token, if it has one. Tokens that were made from it have the same id.
        arguments: The arguments of a `call`, without the values that the fleet leaves out.
        arguments_left_out: Why the arguments are left out.
        approval: Of a `decision`: id of the call that was decided about.
        user: Of a `decision`: the RabbitMQ user that sent it.
        by: Of a `decision`: for whom the user decided, as the user says.
        calls: Of a `decision`: how many calls a yes counts for.
        result: Of an `end`: `ok`, the tool's own `error`, or the code of a refusal. Of a `decision`: `approved`,
            `approved_before`, `denied` or `timed_out`.
        why: Text of the refusal, or reason of the decision, unless the fleet leaves values out.
        seconds: How long the call took.
        at: Time by the worker's clock, as in RFC 3339.
        worker: Id of the worker.
    """

    job_id: str
    what: str
    call: int
    tool: str | None
    token: str | None
    arguments: dict[str, Any] | None
    arguments_left_out: str | None
    approval: str | None
    user: str | None
    by: str | None
    calls: int | None
    result: str | None
    why: str | None
    seconds: float | None
    at: str
    worker: str


@dataclass(frozen=True, slots=True)
class Approval:
    """The code calls a tool, and the call waits for approval. `approve=` decides about it beside the stream.

    Attributes:
        call: Id of the call. The event `ToolCall`, which comes after a yes, has another id.
        tool: Name of the tool.
        arguments: The arguments as JSON values. `None` if they were too large to keep: only the process that followed
            the run when the call was made has seen them.
        pattern: Pattern of the capability that takes the call.
        next: Most calls that a yes can count for: this one, and the next ones that the capability takes.
        left: Seconds that the call goes on to wait. Then it is not made.
    """

    job_id: str
    call: str
    tool: str
    arguments: dict[str, Any] | None
    pattern: str
    next: int
    left: float
    reply_to: str = field(default="", repr=False)


LiveEvent: TypeAlias = Accepted | Started | Stdout | Stderr | Display | ToolCall | Approval | Audit
"""All events but the result."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The job's outcome, as the wire has it."""

    job_id: str
    outcome: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Described:
    """A run that was taken over, as the wire has it."""

    job_id: str
    raw: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decided:
    """A call does not wait for approval any more."""

    job_id: str
    call: str


@dataclass(frozen=True, slots=True)
class Hold:
    """The run does not read the answers that it has: further ones should be kept back for this time, in seconds."""

    job_id: str
    seconds: float


def read_event(payload: bytes) -> LiveEvent | Ended | Described | Decided | Hold | None:
    """The event in a payload; `None` if this release does not know its kind.

    Raises:
        BadFrameError: The payload is not an event.
    """
    try:
        raw = json.loads(payload)
        return _event(raw["job"], raw["event"], raw)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadFrameError(f"an event can't be read: {error!r}") from error


def read_approval(job: str, raw: dict[str, Any]) -> Approval:
    """A call that waits for approval, in its event or in what the fleet knows of the run."""
    left = raw.get("left_ms", raw["within_ms"]) / 1000
    arguments = raw.get("arguments")
    return Approval(job, raw["call"], raw["tool"], arguments, raw["pattern"], raw["next"], left, raw["reply_to"])


def _event(job: str, kind: str, raw: dict[str, Any]) -> LiveEvent | Ended | Described | Decided | Hold | None:
    match kind:
        case "accepted":
            return Accepted(job)
        case "started":
            return Started(job, int(raw.get("attempt", 0)), raw["worker"])
        case "stdout":
            return Stdout(job, raw["text"], raw["seq"])
        case "stderr":
            return Stderr(job, raw["text"], raw["seq"])
        case "display":
            return Display(job, raw["data"])
        case "tool_call":
            return ToolCall(job, raw["call"], raw["tool"], raw["arguments"], raw["within_ms"] / 1000, raw["reply_to"])
        case "audit":
            return _audit(job, raw)
        case "approval":
            return read_approval(job, raw)
        case "decided":
            return Decided(job, raw["call"])
        case "hold":
            return Hold(job, raw["for_ms"] / 1000)
        case "run":
            return Described(raw["run"], raw)
        case "result":
            return Ended(job, raw)
        case _:
            return None


def _audit(job: str, raw: dict[str, Any]) -> Audit:
    ms = raw.get("ms")
    return Audit(
        job_id=job,
        what=raw["what"],
        call=raw["call"],
        tool=raw.get("tool"),
        token=raw.get("token"),
        arguments=raw.get("arguments"),
        arguments_left_out=raw.get("arguments_left_out"),
        approval=raw.get("approval"),
        user=raw.get("user"),
        by=raw.get("by"),
        calls=raw.get("calls"),
        result=raw.get("result"),
        why=raw.get("why"),
        seconds=None if ms is None else ms / 1000,
        at=raw["at"],
        worker=raw["worker"],
    )
