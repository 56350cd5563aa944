"""Live sessions, as results use them: to keep what is too long to tell, and to find a file that a run lacked."""

import ast
import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any

from thermae._async_session_files import AsyncFiles
from thermae._error import ThermaeError
from thermae._loop import Runner
from thermae.errors import SandboxClosed

if TYPE_CHECKING:
    from thermae._async_sandbox import AsyncSandbox
    from thermae._connection import Connection
    from thermae._results import BaseResult

MOST_SESSIONS = 8
"""How many sessions are asked for a file."""

ANSWERS_WITHIN = 5.0
"""Seconds that they have to answer."""

_MISSING = re.compile(r"No such file or directory: ('.*'|\".*\")$", re.MULTILINE)


class LiveSession:
    """A session that is asked by its name, whoever made it. In another process, it is gone."""

    def __init__(self, sandbox: "AsyncSandbox | None", name: str, runner: Runner | None = None) -> None:
        self.name = name
        self._sandbox = sandbox
        self._runner = runner

    def to_sync(self, runner: Runner) -> "LiveSession":
        """The same for callers without an event loop."""
        return LiveSession(self._sandbox, self.name, runner)

    async def connection(self) -> "Connection":
        """The connection to the session's fleet."""
        if self._sandbox is None:
            raise SandboxClosed("the session's sandbox is in another process")
        return await self._sandbox.connection()

    async def keep(self, folder: str, texts: dict[str, str]) -> bool:
        """Writes files into a folder of the session. Returns whether they are there: the session may have ended."""
        with contextlib.suppress(ThermaeError):
            await self._write(folder, texts)
            return True
        return False

    def keep_blocking(self, folder: str, texts: dict[str, str]) -> bool:
        """As `keep`, for callers without an event loop."""
        if self._runner is not None:
            with contextlib.suppress(ThermaeError):
                self._runner.run(self._write(folder, texts))
                return True
        return False

    async def _write(self, folder: str, texts: dict[str, str]) -> None:
        files = AsyncFiles(self)
        for name, text in texts.items():
            await files.write(f"{folder}/{name}", text.encode(errors="replace"), parents=True)

    def __deepcopy__(self, memo: Any) -> "LiveSession":
        return self

    def __reduce__(self) -> Any:
        return (LiveSession, (None, self.name))


def live_session(sandbox: "AsyncSandbox", outcome: dict[str, Any]) -> LiveSession | None:
    """The session of a job that has ended; `None` if it had none, or if the session is over."""
    session: dict[str, Any] = outcome.get("session") or {}
    return LiveSession(sandbox, session["id"]) if session.get("alive") else None


def missing_file(result: "BaseResult") -> str | None:
    """The file that a run without a session did not find, if that was its end."""
    error = result.error
    if error is None or error.exception != "FileNotFoundError" or result.session is not None:
        return None
    named = _MISSING.search(error.message)
    with contextlib.suppress(ValueError, SyntaxError):
        return str(ast.literal_eval(named[1])) if named else None
    return None


async def look_elsewhere(sandbox: "AsyncSandbox", result: "BaseResult") -> None:
    """Notes in a result which live session of the sandbox has the file that the run did not find."""
    if (path := missing_file(result)) is None:
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ANSWERS_WITHIN):
            for name in sorted(sandbox.begun)[:MOST_SESSIONS]:
                with contextlib.suppress(ThermaeError, OSError):
                    if await AsyncFiles(LiveSession(sandbox, name)).exists(path):
                        note = f"This run had a fresh sandbox, without the files of a session. {path!r} is in the"
                        result.notes.append(f"{note} session {name}: run the program in that session.")
                        return
