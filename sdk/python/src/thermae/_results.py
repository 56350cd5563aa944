"""How jobs ended."""

import base64
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias, TypeVar

from thermae._artifacts import Artifact, AsyncArtifact, Fetch, artifact_fields
from thermae._error import ThermaeError
from thermae._events import MimeBundle
from thermae._for_model import LIMIT, ForModel, Writing
from thermae._kept import LiveSession
from thermae._loop import Runner
from thermae._made_calls import CallLog, MadeCall
from thermae._notebook import together
from thermae.errors import class_for

Status: TypeAlias = Literal[
    "succeeded", "failed", "timed_out", "out_of_memory", "output_limit", "cancelled", "rejected", "lost"
]
"""How a job ended. A newer fleet may know more of them."""


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """What went wrong.

    Attributes:
        code: The error's code; `thermae.errors` has a class for each.
        message: What happened, for people and models.
        safe_to_retry: Whether nothing of the job ran and the cause can pass.
        exception: Name of the exception's type, if the code raised one.
        traceback: Its traceback.
    """

    code: str
    message: str
    safe_to_retry: bool = False
    exception: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a job used: time by the wall clock and CPU time in milliseconds, peak memory and output in bytes.

    `memory_bytes` is counted as the limit counts it: without what the interpreter and preloaded modules hold from the
    start, and without files. `files_bytes` is the peak size of the files in the sandbox. `paused_ms` is the part of
    `wall_ms` in which the code only waited for answers to tool calls, and which did not count against the timeout.
    """

    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    memory_bytes: int = 0
    files_bytes: int = 0
    output_bytes: int = 0
    tool_calls: int = 0
    paused_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class LimitsUsed:
    """The limits that applied to a job; the units are those of `Usage`."""

    wall_ms: int
    cpu_ms: int
    memory_bytes: int
    pids: int
    output_bytes: int
    pause_ms: int = 0


@dataclass(frozen=True, slots=True)
class SessionState:
    """A job's session, after the job.

    Attributes:
        id: Name of the session.
        fresh: Whether this job made it.
        alive: Whether it still exists.
        restored_files: How many files and links the job found in `/workspace` and `/session` from a checkpoint.
        checkpointed: Whether the session's files as they were after this job are stored.
        checkpoint_expires_at: When that checkpoint expires, as in RFC 3339.
        checkpoint_left_out: How many sockets, FIFOs, devices and unreadable files are not in that checkpoint.
        checkpoint_error: Why the files are not stored, although the session asks for it.
    """

    id: str
    fresh: bool
    alive: bool
    restored_files: int = 0
    checkpointed: bool = False
    checkpoint_expires_at: str | None = None
    checkpoint_left_out: int = 0
    checkpoint_error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that is not among the artifacts, and why."""

    path: str
    why: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseResult:
    """How a job ended. The attributes are those of the fleet's outcome.

    Attributes:
        job_id: Id of the job.
        attempt: Number of the attempt, from 1; 0 if the job never ran.
        status: How the job ended.
        stdout: Standard output. Bytes that are not UTF-8 are replaced here; `stdout_bytes` has them.
        stderr: Standard error, likewise.
        exit_code: Exit status of the code, if it ended with one.
        signal: Number of the signal that ended the code, if one did.
        value: Value of the code's last expression, in one or more forms by MIME type; `text/plain` is its `repr`.
        displays: What the code displayed, in order.
        error: What went wrong, unless the job succeeded.
        notes: What whoever wrote the code should know about it, such as a forgotten `await`. Sentences.
        usage: What the job used.
        limits: The limits that applied.
        session: The job's session.
        left_out: Files that are not among the artifacts.
        calls: The tool calls that this process has seen, in order, and what became of each.
        calls_not_seen: How many further calls the fleet has counted: those made while another process followed the run.
        worker: Id of the worker that ran the job.
        duplicate_of: Id of the job with the same idempotency key that ran instead of this one.
        raw: The whole outcome, with whatever a newer fleet says about it.
        live: The job's session, if this process can ask it.
    """

    job_id: str
    attempt: int
    status: Status
    stdout: str = field(repr=False)
    stderr: str = field(repr=False)
    exit_code: int | None
    signal: int | None
    value: MimeBundle | None
    displays: list[MimeBundle] = field(repr=False)
    error: ErrorInfo | None
    notes: list[str]
    usage: Usage = field(repr=False)
    limits: LimitsUsed | None = field(repr=False)
    session: SessionState | None
    left_out: list[LeftOut] = field(repr=False)
    calls: list[MadeCall] = field(repr=False)
    calls_not_seen: int = field(repr=False)
    worker: str | None = field(repr=False)
    duplicate_of: str | None = field(repr=False)
    raw: dict[str, Any] = field(repr=False)
    live: LiveSession | None = field(repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether the job succeeded."""
        return self.status == "succeeded"

    @property
    def stdout_bytes(self) -> bytes:
        """Standard output, byte for byte."""
        return self._bytes("stdout")

    @property
    def stderr_bytes(self) -> bytes:
        """Standard error, byte for byte."""
        return self._bytes("stderr")

    def to_error(self) -> ThermaeError | None:
        """The result as an error; `None` if the job succeeded."""
        if self.ok:
            return None
        error = self.error or ErrorInfo("unknown", f"the job ended as {self.status}")
        kind = class_for(error.code)
        made = kind(
            error.message, code=error.code, request_id=self.job_id, safe_to_retry=error.safe_to_retry, result=self
        )
        for note in self.notes:
            made.add_note(note)
        return made

    def raise_for_status(self) -> Self:
        """The result itself, if the job succeeded.

        Raises:
            ThermaeError: It did not. The class is that of the error's code, and `result` is this result.
        """
        if error := self.to_error():
            raise error
        return self

    def _bytes(self, stream: str) -> bytes:
        encoded = self.raw.get(f"{stream}_base64")
        return base64.b64decode(encoded) if encoded else str(self.raw.get(stream, "")).encode()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> MimeBundle:
        """The result in a notebook: all that was printed, everything displayed, the value and the error, in order."""
        why = self._why()
        parts: list[MimeBundle] = [{"text/plain": text} for text in (self.stdout, self.stderr) if text]
        parts += [*self.displays, *([self.value] if self.value else []), *([{"text/plain": why}] if why else [])]
        return together(parts)

    def _why(self) -> str:
        """What a notebook shows of the error. Only that of a program which failed says in its traceback why."""
        if self.error is None:
            return ""
        raised = self.error.traceback
        told = "" if raised and self.status == "failed" else f"{self.error.code}: {self.error.message}"
        return "\n".join(filter(None, (told, raised)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(BaseResult):
    """How a job of a `Sandbox` ended.

    Attributes:
        artifacts: The files that the code left in `/workspace/artifacts` or `/session/artifacts`.
    """

    artifacts: list[Artifact]

    def for_model(self, limit: int = LIMIT) -> ForModel:
        """What a model should read of the result. Images are apart from the text.

        The text says how the program ended, has its output, value and error, the calls that it had made if it did not
        succeed, and notes.

        Long parts are cut in the middle. In a session, a file of the session, which the text names, has all of each.

        Args:
            limit: Most characters of the text.
        """
        writing = Writing(self, limit)
        kept = self.live is not None and bool(writing.cut) and self.live.keep_blocking(writing.folder, writing.cut)
        return writing.finish(in_session=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncResult(BaseResult):
    """How a job of an `AsyncSandbox` ended.

    Attributes:
        artifacts: The files that the code left in `/workspace/artifacts` or `/session/artifacts`.
    """

    artifacts: list[AsyncArtifact]

    async def for_model(self, limit: int = LIMIT) -> ForModel:
        """What a model should read of the result. Images are apart from the text.

        The text says how the program ended, has its output, value and error, the calls that it had made if it did not
        succeed, and notes.

        Long parts are cut in the middle. In a session, a file of the session, which the text names, has all of each.

        Args:
            limit: Most characters of the text.
        """
        writing = Writing(self, limit)
        kept = self.live is not None and bool(writing.cut) and await self.live.keep(writing.folder, writing.cut)
        return writing.finish(in_session=kept)

    def to_sync(self, runner: Runner) -> Result:
        """The same for callers without an event loop."""
        artifacts = [
            Artifact(**artifact_fields(one), fetch=a.fetch, _runner=runner)
            for one, a in zip(self.raw.get("artifacts", ()), self.artifacts, strict=True)
        ]
        fields = {name: getattr(self, name) for name in BaseResult.__dataclass_fields__}
        fields["live"] = self.live and self.live.to_sync(runner)
        return Result(**fields, artifacts=artifacts)


def read_result(
    job: str, raw: dict[str, Any], fetch: Fetch, calls: CallLog | None = None, live: LiveSession | None = None
) -> AsyncResult:
    """The result in an event."""
    error, session, limits = raw.get("error"), raw.get("session"), raw.get("limits")
    usage, calls = _known(Usage, raw.get("usage", {})), calls or CallLog()
    return AsyncResult(
        job_id=job,
        attempt=raw.get("attempt", 0),
        status=raw["status"],
        stdout=raw.get("stdout", ""),
        stderr=raw.get("stderr", ""),
        exit_code=raw.get("exit_code"),
        signal=raw.get("signal"),
        value=raw.get("value"),
        displays=raw.get("displays", []),
        error=_known(ErrorInfo, error) if error else None,
        notes=list(raw.get("notes", ())),
        usage=usage,
        limits=_known(LimitsUsed, limits) if limits else None,
        session=_session(session) if session else None,
        left_out=[_known(LeftOut, one) for one in raw.get("artifacts_left_out", ())],
        calls=list(calls),
        calls_not_seen=calls.not_seen(usage.tool_calls),
        worker=raw.get("worker"),
        duplicate_of=raw.get("duplicate_of"),
        raw=raw,
        live=live,
        artifacts=[AsyncArtifact(**artifact_fields(one), fetch=fetch) for one in raw.get("artifacts", ())],
    )


def _session(raw: dict[str, Any]) -> SessionState:
    error = raw.get("checkpoint_error")
    return _known(SessionState, {**raw, "checkpoint_error": _known(ErrorInfo, error) if error else None})


_T = TypeVar("_T")


def _known(kind: type[_T], raw: dict[str, Any]) -> _T:
    """An object from the fields that this release knows."""
    known: dict[str, Any] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return kind(**{name: value for name, value in raw.items() if name in known})
