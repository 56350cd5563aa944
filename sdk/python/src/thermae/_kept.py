"""Where the results of a session's runs keep what is too long to tell."""

import contextlib
from typing import TYPE_CHECKING, Any

from thermae._async_session_files import AsyncFiles
from thermae._error import ThermaeError
from thermae._loop import Runner
from thermae.errors import SandboxClosed

if TYPE_CHECKING:
    from thermae._async_sandbox import AsyncSandbox
    from thermae._connection import Connection


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
