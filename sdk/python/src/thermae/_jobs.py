"""Jobs: what runs, and under which conditions."""

import contextlib
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, cast

from thermae._capabilities import Capability, capabilities_to_wire, checked_token
from thermae._events import Audit, MimeBundle, ToolCall
from thermae._files import Content, InputFile, files_to_wire, inputs_to_wire, mapping
from thermae._json_forms import jsonable
from thermae._request import json_payload
from thermae._tools import AnyTool, Tool, tools_by_name
from thermae._units import to_bytes, to_ms

START_WITHIN = 60.0
"""Seconds that a job with a timeout can wait for its start, unless it says otherwise."""


PAUSE = 240.0
"""Seconds of waiting that don't count against the timeout of a job, unless it says otherwise."""


class SessionOptions(TypedDict, total=False):
    """How a job uses its session.

    Attributes:
        if_gone: What to do if the session existed and is gone: `fail` (the default) or make a `new` one.
        reset: Whether to begin a new session under this name.
        close: Whether to close the session after this job.
        idle: Seconds that the session can be idle from this job on.
        checkpoint: `after_job`: the session's files are stored after each job, from this one on.
        checkpoint_ttl: Seconds that each checkpoint is kept, from this job on.
        restore: Name of the session with whose checkpoint this job begins a new session.
    """

    if_gone: Literal["fail", "new"]
    reset: bool
    close: bool
    idle: float
    checkpoint: Literal["after_job"]
    checkpoint_ttl: float
    restore: str


class JobOptions(TypedDict, total=False):
    """What can be said about a job, beside its code.

    Attributes:
        language: `python` (the default) or `bash`.
        argv: A command and its arguments, in place of code. The language is then `bash`.
        stdin: Standard input.
        env: Environment variables. In a session, they stay set for its later programs.
        files: Files that the code finds below `/workspace`: paths, and text, bytes, `Path`s or artifacts.
        inputs: Values that the code finds as variables: anything that has a form in JSON (dates, sets and data frames
            do, too), or artifacts that are JSON.
        tools: Functions that the code can call, in place of the sandbox's own. `[]` means none.
        sync_tools: Whether calling a tool gives its result, so that the code does not await it; by default, as the
            sandbox says.
        capabilities: What the code can do with its tools, in place of the sandbox's own capabilities. `[]` means
            nothing. Calls that no capability allows raise `ToolError` in the code, and are not made.
        token: A capability token, in place of the sandbox's own. A call then needs its leave, too, and counts for all
            jobs that use it.
        timeout: Seconds that the code can run. Waiting for tools does not count, up to `pause`. `THERMAE_TIMEOUT` is
            the default, and else the fleet's own.
        start_within: Seconds within which the code must start, a minute by default. So the whole wait is bounded. The
            jobs of a batch, which wait for each other, and those of `submit`, for which nobody waits, have no default
            without `timeout`.
        cpu: Seconds of CPU time.
        memory: Memory, in bytes or as text such as `256MiB`.
        pids: Number of processes and threads.
        output: Size of standard output and standard error together.
        tool_wait: Seconds that a tool call can wait for its answer.
        pause: Seconds in which the code only waits for answers to tool calls and which don't count against `timeout`.
            What it waits beyond that counts. By default, as the fleet says: 240 s, unless its pool says otherwise.
        if_client_gone: What happens to a tool call when no process of yours follows the run: `fail` (the default of
            `run`), or `wait` until one attaches to it (the default of `submit`).
        session: Name of the session that the job runs in.
        session_options: How it uses the session.
        pool: Pool that the job runs in.
        priority: How urgent the job is among your own: `high`, `normal` or `low`.
        labels: Labels of your own. The fleet does not read them.
        idempotency_key: Jobs with the same key are one job: only the first runs.
        max_attempts: How many times the code can be started. Above 1 only if it can safely run twice.
        inline_artifacts: Whether the result itself has the content of small artifacts.
        job_id: Id of the job, unique in the tenant; by default, a random one.
    """

    language: str
    argv: Sequence[str]
    stdin: str
    env: Mapping[str, str]
    files: Mapping[str, Content | InputFile]
    inputs: Mapping[str, Any]
    tools: Sequence[AnyTool]
    sync_tools: bool
    capabilities: Sequence[Capability]
    token: str
    timeout: float
    start_within: float
    cpu: float
    memory: int | str
    pids: int
    output: int | str
    tool_wait: float
    pause: float
    if_client_gone: Literal["fail", "wait"]
    session: str
    session_options: SessionOptions
    pool: str
    priority: Literal["high", "normal", "low"]
    labels: Mapping[str, str]
    idempotency_key: str
    max_attempts: int
    inline_artifacts: bool
    job_id: str


class StreamOptions(JobOptions, total=False):
    """What can be said about one submission of a job.

    Attributes:
        max_retries: How often the job is submitted again, under the same id, if the fleet can't be reached or takes no
            jobs just now. An id never runs twice.
    """

    max_retries: int


class RunOptions(StreamOptions, total=False):
    """What can be said about one run.

    Attributes:
        on_stdout: Called with each piece of standard output as it comes.
        on_stderr: Called with each piece of standard error as it comes.
        on_display: Called with each thing that the code displays.
        on_tool_call: Called with each tool call. It only watches: the tool is called beside it.
        on_audit: Called with what the fleet's audit log says about each tool call, also about refused ones.
        check: Whether a program that did not succeed raises the error of its result.
    """

    on_stdout: Callable[[str], object]
    on_stderr: Callable[[str], object]
    on_display: Callable[[MimeBundle], object]
    on_tool_call: Callable[[ToolCall], object]
    on_audit: Callable[[Audit], object]
    check: bool


class Job:
    """One program to run.

    Attributes:
        id: The job's id.
        code: The program.
        options: What was said about it.
        must_start: Whether it must start within a minute even if nothing was said about time.
    """

    must_start = True

    def __init__(self, code: str = "", **options: Unpack[JobOptions]) -> None:
        """Makes a job.

        Raises:
            TypeError: The code is not text, an option is unknown, or there are both code and `argv`.
        """
        if not isinstance(code, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a program is text or a Job, not {type(code).__name__}")
        if unknown := options.keys() - JobOptions.__annotations__.keys():
            raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
        if code and options.get("argv"):
            raise TypeError("give either code or argv")
        self.code = code
        self.options = options
        job_id = options.get("job_id")
        self.id = uuid.uuid4().hex if job_id is None else job_id

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    @property
    def timeout(self) -> float | None:
        """Seconds that the code can run; `None` for the fleet's own limit."""
        named = self.options.get("timeout")
        return named if named is not None else environment_timeout()

    def deadline(self, *, can_wait: bool = False) -> float | None:
        """Seconds after which the job must have ended, if it has a timeout.

        Args:
            can_wait: Whether the code can wait for answers to tool calls.
        """
        if self.timeout is None:
            return None
        start_within, waits = self.options.get("start_within"), self.options.get("pause", PAUSE) if can_wait else 0.0
        return self.timeout + waits + (START_WITHIN if start_within is None else start_within)

    @property
    def language(self) -> str:
        """The language of the code."""
        return self.options.get("language") or ("bash" if self.options.get("argv") else "python")

    def tools(self, default: Mapping[str, Tool[..., Any]]) -> Mapping[str, Tool[..., Any]]:
        """The tools of the job; `default` are those of its sandbox. Programs in bash can't call tools."""
        if (named := self.options.get("tools")) is not None:
            return tools_by_name(named)
        return default if self.language == "python" else {}

    def capabilities(self, default: Sequence[Capability] | None) -> Sequence[Capability] | None:
        """The capabilities of the job; `default` are those of its sandbox. `None` if its tools have no other rules."""
        named = self.options.get("capabilities")
        if named is not None:
            return named
        return default if self.language == "python" else None

    @staticmethod
    def is_bounded(
        tools: Mapping[str, Tool[..., Any]], capabilities: Sequence[Capability] | None, token: str | None
    ) -> bool:
        """Whether the fleet may refuse calls by itself. Only its audit log tells of them then."""
        return bool(tools) and (
            capabilities is not None or token is not None or any(one.max_calls is not None for one in tools.values())
        )

    def token(self, default: str | None, tools: Mapping[str, Tool[..., Any]]) -> str | None:
        """The token of the job; `default` is that of its sandbox, which only a job with tools needs.

        Raises:
            TypeError: It is no text.
        """
        named = checked_token(self.options.get("token"))
        return named if named is not None or not tools else default

    def to_wire(
        self,
        tools: Mapping[str, Tool[..., Any]],
        capabilities: Sequence[Capability] | None,
        token: str | None,
        stream: Sequence[str],
        *,
        if_client_gone: str = "fail",
        sync_tools: bool = False,
    ) -> bytes:
        """The job as the fleet reads it.

        Args:
            tools: The job's tools, by name.
            capabilities: The job's capabilities; `None` if its tools have no other rules.
            token: The job's token, if it has one.
            stream: The kinds of events that somebody wants while the job runs.
            if_client_gone: What the option of this name is, if the job does not have it.
            sync_tools: Likewise.

        Raises:
            TypeError: An option has a value of a wrong type.
            ValueError: An option has a value that can't be used.
            OSError: A file of this machine can't be read.
        """
        options = self.options
        timeout = self.timeout
        limits = {
            "wall_ms": to_ms(timeout) if timeout is not None else None,
            "cpu_ms": _optional(to_ms, options.get("cpu")),
            "memory_bytes": _optional(to_bytes, options.get("memory")),
            "pids": options.get("pids"),
            "output_bytes": _optional(to_bytes, options.get("output")),
            "tool_ms": _optional(to_ms, options.get("tool_wait")),
            "pause_ms": _optional(to_ms, options.get("pause")),
        }
        start_within = options.get("start_within")
        if start_within is None and (self.must_start or timeout is not None):
            start_within = START_WITHIN
        inputs = inputs_to_wire(options.get("inputs") or {})
        # A job without tools needs no capabilities: nothing can be called.
        allowed = capabilities_to_wire(capabilities) if tools else None
        gone = options.get("if_client_gone", if_client_gone)
        if gone not in ("fail", "wait"):
            raise ValueError(f"if_client_gone is either 'fail' or 'wait', not {gone!r}")
        wire = {
            "id": self.id,
            "code": self.code if not options.get("argv") else None,
            "argv": _words(options.get("argv")),
            "language": self.language,
            "pool": options.get("pool"),
            "class": options.get("priority"),
            "session": self._session(),
            "limits": _present(limits),
            "tools": [tool.to_wire() for tool in tools.values()],
            "sync_tools": options.get("sync_tools", sync_tools) or None,
            "stream": list(stream),
            "if_client_gone": "wait" if gone == "wait" else None,
            "max_attempts": options.get("max_attempts"),
            "start_within_ms": _optional(to_ms, start_within),
            "inputs": inputs,
            "stdin": options.get("stdin"),
            "files": files_to_wire(options.get("files") or {}),
            "artifacts": {"inline": True} if options.get("inline_artifacts") else None,
            "env": dict(mapping(options.get("env") or {}, "env")),
            "idempotency_key": options.get("idempotency_key"),
            "labels": dict(mapping(options.get("labels") or {}, "labels")),
        }
        present = _present(wire)
        if allowed is not None:
            present["capabilities"] = allowed  # Also if it is empty: then nothing is allowed.
        if token is not None:
            present["token"] = token  # Also if it is empty: the fleet then refuses the job.
        return written(present)

    def _session(self) -> dict[str, Any] | None:
        name, how = self.options.get("session"), self.options.get("session_options") or {}
        if name is None:
            return None
        idle, ttl = _optional(to_ms, how.get("idle")), _optional(to_ms, how.get("checkpoint_ttl"))
        units = {"idle": None, "idle_ms": idle, "checkpoint_ttl": None, "checkpoint_ttl_ms": ttl}
        return _present({"id": name, **how, **units})


def job_from(code: str | Job, options: StreamOptions) -> Job:
    """The job of a program and its options.

    Raises:
        TypeError: The program is a `Job` already, and there are options.
    """
    if isinstance(code, Job):
        if options:
            raise TypeError(f"a Job has its options already: {', '.join(options)}")
        return code
    return Job(code, **cast("JobOptions", options))


def written(fields: dict[str, Any]) -> bytes:
    """What the fleet reads, as JSON.

    Raises:
        TypeError: A field has a value that JSON can't express.
        ValueError: A field has text that is not valid Unicode, or a number that is not finite.
    """
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        return json_payload(fields)
    inputs: dict[str, dict[str, Any]] = fields.get("inputs", {})
    formed = {
        name: {key: jsonable(one, f"inputs[{name!r}]") if key == "value" else one for key, one in wire.items()}
        for name, wire in inputs.items()
    }
    fields = fields | ({"inputs": formed} if inputs else {})
    try:
        return json_payload(fields)
    except (TypeError, ValueError, RecursionError):
        for name, value in fields.items():
            items: list[tuple[str, Any]] = [(name, value)]
            if isinstance(value, dict):
                items = [(f"{name}[{key!r}]", one) for key, one in value.items()]  # pyright: ignore
            for where, one in items:
                _expect_json(where, one)
        raise


def _expect_json(where: str, value: Any) -> None:
    """Raises an error that says where a value is that JSON can't express."""
    try:
        json_payload(value)
    except UnicodeEncodeError as error:
        raise ValueError(f"{where} has text that is not valid Unicode: {error.reason}") from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where} can't be written as JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"{where} can't be written as JSON: it is nested too deeply") from None


def _words(argv: Sequence[str] | None) -> list[str]:
    if isinstance(argv, str):
        raise TypeError("argv is a list of texts, not a single text")
    if argv is not None and not argv:
        raise ValueError("argv is empty: give a command")
    return list(argv or ())


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that say something: the fleet's defaults hold for all others."""
    return {name: value for name, value in fields.items() if value is not None and value != [] and value != {}}


def _optional(convert: Callable[[Any], int], value: Any) -> int | None:
    return None if value is None else convert(value)


def environment_timeout() -> float | None:
    """Seconds that a program or a command can run if it names no timeout: those in `THERMAE_TIMEOUT`."""
    text = os.environ.get("THERMAE_TIMEOUT")
    if not text:
        return None
    try:
        return to_ms(float(text)) / 1000
    except ValueError:
        raise ValueError(f"THERMAE_TIMEOUT must be a number of seconds above 0, not {text!r}") from None
