"""Commands in sessions: their options and their results."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

from thermae._content import Content
from thermae._error import ThermaeError
from thermae.errors import Cancelled, CodeExited, CodeKilled, OutOfMemory, OutputLimit, WallTimeout

MAX_OUTPUT = 16 << 20
"""Bytes of output that the result of a command has at most, unless its caller says otherwise."""

Command: TypeAlias = str | Sequence[str]
"""A command line for `bash`, or a program and its arguments, which reach it unchanged."""

SandboxPath: TypeAlias = str | bytes | os.PathLike[str]
"""A path in the sandbox: absolute, or relative to `/workspace`."""

ExecStatus: TypeAlias = Literal["exited", "signaled", "timed_out", "cancelled", "out_of_memory", "output_limit"]
"""How a command ended."""


class CommandOptions(TypedDict, total=False):
    """What can be said about a command.

    Attributes:
        cwd: Working directory: absolute, or relative to `/workspace`, which is the default.
        env: Environment variables, beside those of the sandbox.
        timeout: Seconds that it can run before it is killed. `THERMAE_TIMEOUT` is the default, and else the fleet's
            own limit.
        max_output: Most bytes of standard output and standard error together in the result, as a number or as text
            such as `64MiB`; 16 MiB by default. A command that writes more is killed, and `OutputLimit` is raised.
    """

    cwd: SandboxPath | None
    env: Mapping[str, str] | None
    timeout: float | None
    max_output: int | str


class ExecOptions(CommandOptions, total=False):
    """What can be said about a command that is run to its end.

    Attributes:
        input: Standard input: text, bytes, a `Path` of this machine, a binary file, or pieces of bytes that an iterable
            gives. By default, it is empty.
        check: Whether a command that did not exit with 0 raises an error: `CodeExited`, `CodeKilled`, `WallTimeout` or
            `OutOfMemory`. Its `exec_result` is the result.
    """

    input: Content | None
    check: bool


class Output(NamedTuple):
    """A piece of a command's output."""

    stream: Literal["stdout", "stderr"]
    data: bytes


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended.

    Attributes:
        status: How it ended: `exited`, `signaled`, `timed_out`, `cancelled` (by `kill`), `out_of_memory` or
            `output_limit`.
        exit_code: Its exit status, if it exited.
        signal: Number of the signal that ended it, if one did.
        stdout: Its standard output, except what was taken piece by piece.
        stderr: Its standard error, except what was taken piece by piece.
        duration: Seconds that it took.
        request_id: Id of the request, under which the logs of the fleet have more.
    """

    status: ExecStatus
    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    duration: float
    request_id: str

    @property
    def ok(self) -> bool:
        """Whether it exited with 0."""
        return self.exit_code == 0

    @property
    def timed_out(self) -> bool:
        """Whether it took too long, and was killed."""
        return self.status == "timed_out"

    @property
    def text(self) -> str:
        """Standard output as text. Bytes that are not UTF-8 are replaced."""
        return self.stdout.decode(errors="replace")

    @property
    def stderr_text(self) -> str:
        """Standard error as text. Bytes that are not UTF-8 are replaced."""
        return self.stderr.decode(errors="replace")

    def raise_for_status(self) -> None:
        """Raises an error unless the command exited with 0.

        Raises:
            CodeExited: It exited with another status.
            CodeKilled: A signal ended it.
            WallTimeout: It took too long.
            OutOfMemory: The session's memory ran out.
            OutputLimit: It wrote more than `max_output`.
            Cancelled: It was killed.
        """
        if self.ok:
            return
        kind, message, advice = self._failure()
        if last := self.stderr_text.strip().rpartition("\n")[2]:
            message += f"; its last words: {last[:500]}"
        error = kind(message, request_id=self.request_id, advice=advice)
        error.exec_result = self
        raise error

    def _failure(self) -> tuple[type[ThermaeError], str, str]:
        match self.status:
            case "exited":
                return CodeExited, f"the command exited with {self.exit_code}", ""
            case "signaled":
                return CodeKilled, f"signal {self.signal} ended the command", ""
            case "timed_out":
                advice = "Make the command faster, or give it more time with timeout=."
                return WallTimeout, f"the command took {self.duration:.3g} s, longer than it may", advice
            case "out_of_memory":
                return OutOfMemory, "the session's memory ran out", ""
            case "output_limit":
                advice = "Write less, raise max_output=, or take the output piece by piece with popen."
                return OutputLimit, "the command wrote more output than max_output", advice
            case _:
                return Cancelled, "the command was killed", ""


def command_to_wire(command: Command, options: CommandOptions) -> dict[str, Any]:
    """A command as a request has it.

    Raises:
        TypeError: An option is unknown, or the command is neither text nor a list of texts.
        ValueError: The command is empty.
    """
    if unknown := options.keys() - CommandOptions.__annotations__.keys():
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
    wire: dict[str, Any]
    if isinstance(command, str):
        wire = {"shell": command}
    else:
        is_list = isinstance(command, Sequence)  # pyright: ignore[reportUnnecessaryIsInstance]
        words = list(command) if is_list else [command]
        for word in words:
            if not isinstance(word, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"a command is text, or a list of texts, without {word!r}")
        wire = {"argv": words}
        if not wire["argv"]:
            raise ValueError("a command needs at least the name of a program")
    if (cwd := options.get("cwd")) is not None:
        wire["cwd"] = path_to_wire(cwd)
    if env := options.get("env"):
        wire["env"] = dict(env)
    return {"exec": wire}


def path_to_wire(path: SandboxPath) -> str | list[int]:
    """A path as a request has it: text, or bytes if it is not UTF-8."""
    raw = path.as_posix() if isinstance(path, PurePath) else os.fspath(path)
    data = raw.encode("utf-8", "surrogateescape") if isinstance(raw, str) else raw
    try:
        return data.decode()
    except UnicodeDecodeError:
        return [*data]


def path_from_wire(raw: str | list[int]) -> str:
    """A path of an answer. Bytes that are not UTF-8 become surrogates, as `os.fsdecode` does it."""
    return raw if isinstance(raw, str) else bytes(raw).decode("utf-8", "surrogateescape")
