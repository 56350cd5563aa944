"""All errors: a class for each code of the fleet and of the way to it, and those of this package itself."""

import errno

from thermae._bridge_errors import *  # noqa: F403
from thermae._bridge_errors import BRIDGE_ERRORS
from thermae._error import ThermaeError as ThermaeError
from thermae._fleet_errors import *  # noqa: F403
from thermae._fleet_errors import FLEET_ERRORS
from thermae._gateway_errors import *  # noqa: F403
from thermae._gateway_errors import GATEWAY_ERRORS


class EmbeddedUnavailable(ThermaeError):
    """The program `thermae` is missing or can't run here. It is the embedded fleet, and the way to any other one."""

    code = "embedded_unavailable"
    advice = (
        "Install the package from its wheel for Linux, put `thermae` on PATH, or name it in THERMAE_BIN. "
        "`thermae doctor` says what an embedded fleet lacks on this machine."
    )


class PackagesError(ThermaeError):
    """The packages that the embedded fleet's programs should find can't be installed.

    Attributes:
        package: What no wheel fits, if it is known, as it was asked for.
    """

    package: str | None = None
    code = "packages_failed"
    advice = (
        "Look at the last lines of pip. Only wheels are installed, from the indexes of your pip's configuration. If a "
        "package has no wheel for this interpreter, build one elsewhere, put it into a folder, and name the folder in "
        "PIP_FIND_LINKS. The logger `thermae` has all that pip prints."
    )


class ForkedClientError(ThermaeError):
    """The sandbox was made before a fork, and only the parent process can use it."""

    code = "forked_client"
    advice = "Make a Sandbox in each process, after the fork (with gunicorn, in the hook post_fork)."
    default_message = "this sandbox belongs to the process that made it, not to this forked child"


class WrongLoopError(ThermaeError):
    """An `AsyncSandbox` was used on another event loop than the one that opened it."""

    code = "wrong_loop"
    advice = "Make an AsyncSandbox on each event loop, or use Sandbox, which has a loop of its own."
    default_message = "this sandbox was opened on another event loop"


class BlockedLoopError(ThermaeError):
    """The event loop that answers tool calls would wait for a run that needs it."""

    code = "blocked_loop"
    advice = "Use AsyncSandbox where an event loop answers tool calls, or run this in another thread."
    default_message = "the event loop of the tools would wait for itself"


class SandboxClosed(ThermaeError):
    """The sandbox or the session was used after it was closed."""

    code = "sandbox_closed"
    advice = "Use it inside its `with` block, or make a new one."
    default_message = "the sandbox is closed"


class ConnectionLost(ThermaeError):
    """The connection to the fleet ended. Jobs under way may have run, in whole or in part."""

    code = "connection_lost"
    advice = (
        "On a fleet, run the job again under the same job_id: it does not run twice. An embedded fleet may be gone "
        "with its process: make a new Sandbox. The log of `thermae.bridge`, or of the gateway, says more."
    )


class NoAnswer(ThermaeError):
    """The fleet gave no outcome in time. The job was cancelled; it may have run."""

    code = "no_answer"
    advice = "Look for the job's id in the fleet's log. Give more time with timeout= or start_within=."


class RunDetached(ThermaeError):
    """The object does not follow its run: it was detached, or attached with `take_over=False`."""

    code = "run_detached"
    advice = "Attach to the run: sandbox.attach(run.id). info(), pending() and answer() work without."
    default_message = "this object does not follow the run"


class SessionNotFound(ThermaeError):
    """There is no live session of that name."""

    code = "session_not_found"
    advice = "Make one with sandbox.session(name). sandbox.sessions() lists the live ones."


class ArtifactDamaged(ThermaeError):
    """The bytes of an artifact do not match its size or its SHA-256."""

    code = "artifact_damaged"
    advice = "Read it again. If it stays damaged, the fleet's store is: tell its operator."


class BadTool(ThermaeError):
    """A function, or a description of a tool, can't be used as a tool."""

    code = "bad_tool"
    advice = "Give every parameter a type hint that JSON can express, and the tool a name of its own."


class FileError(ThermaeError, OSError):
    """An operation on a file of a session failed, or a command could not be started.

    The most frequent kinds are classes of their own, which are also the builtin ones: `except FileNotFoundError` works.

    Attributes:
        errno_name: Name of the kernel's error, such as `ENOSPC`.
        errno: Its number, if this machine knows it.
        strerror: What went wrong, in words.
        filename: The path in question, in the sandbox.
    """

    code = "file_error"
    advice = "The message has the path and the kernel's reason."

    def __init__(self, errno_name: str, strerror: str, filename: str, *, request_id: str = "") -> None:
        super().__init__(f"{strerror}: {filename!r} ({errno_name})", request_id=request_id)
        self.errno_name = errno_name
        self.errno = getattr(errno, errno_name, None)
        self.strerror = strerror
        self.filename = filename

    def __reduce__(self) -> tuple[object, ...]:
        return (file_error, (self.errno_name, self.strerror, self.filename, self.request_id))


class FileNotFound(FileError, FileNotFoundError):
    """There is nothing at the path (`ENOENT`)."""

    code = "file_not_found"
    advice = "Check the path: it is absolute, or relative to /workspace."


class FileExists(FileError, FileExistsError):
    """There is something at the path already (`EEXIST`)."""

    code = "file_exists"
    advice = "Choose another path, or remove what is there."


class IsADirectory(FileError, IsADirectoryError):
    """The path is a directory, not a file (`EISDIR`)."""

    code = "is_a_directory"
    advice = "Name a file in it."


class NotADirectory(FileError, NotADirectoryError):
    """The path, or a part of it, is not a directory (`ENOTDIR`)."""

    code = "not_a_directory"
    advice = "Check each part of the path."


class PermissionDenied(FileError, PermissionError):
    """The sandbox's user may not do this (`EACCES` or `EPERM`)."""

    code = "permission_denied"
    advice = "Check the permissions of the file and of the directories above it, or use a path below /workspace."


_BY_ERRNO: dict[str, type[FileError]] = {
    "ENOENT": FileNotFound,
    "EEXIST": FileExists,
    "EISDIR": IsADirectory,
    "ENOTDIR": NotADirectory,
    "EACCES": PermissionDenied,
    "EPERM": PermissionDenied,
}


def file_error(errno_name: str, strerror: str, filename: str, request_id: str) -> FileError:
    """The error for a failure of the kernel's."""
    kind = _BY_ERRNO.get(errno_name, FileError)
    return kind(errno_name, strerror, filename, request_id=request_id)


_OWN: tuple[type[ThermaeError], ...] = (
    EmbeddedUnavailable,
    PackagesError,
    ForkedClientError,
    WrongLoopError,
    BlockedLoopError,
    SandboxClosed,
    ConnectionLost,
    NoAnswer,
    RunDetached,
    SessionNotFound,
    ArtifactDamaged,
    BadTool,
    FileError,
    FileNotFound,
    FileExists,
    IsADirectory,
    NotADirectory,
    PermissionDenied,
)
_BY_CODE: dict[str, type[ThermaeError]] = {
    kind.code: kind for kind in (*FLEET_ERRORS, *BRIDGE_ERRORS, *GATEWAY_ERRORS, *_OWN)
}


def class_for(code: str) -> type[ThermaeError]:
    """The class of an error code; `ThermaeError` itself if this release does not know the code."""
    return _BY_CODE.get(code, ThermaeError)
