"""An interpreter that keeps its variables, for programs with an event loop."""

import asyncio
import contextlib
import uuid
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypedDict, Unpack, cast

from thermae._async_process import AsyncProcess
from thermae._async_run import AsyncRun
from thermae._async_session_files import AsyncFiles
from thermae._async_stream import AsyncStream
from thermae._commands import Command, CommandOptions, ExecOptions, ExecResult
from thermae._connection import Connection
from thermae._error import ThermaeError
from thermae._jobs import RunOptions, SessionOptions, StreamOptions
from thermae._requests import ask
from thermae._results import AsyncResult
from thermae.errors import (
    ForkedClientError,
    SandboxClosed,
    SessionEvicted,
    SessionExpired,
    SessionLost,
    SessionNotFound,
)

if TYPE_CHECKING:
    from thermae._async_sandbox import AsyncSandbox


class SessionSettings(TypedDict, total=False):
    """What holds for all runs of a session.

    Attributes:
        language: Language of its programs.
        pool: Pool that it lives in.
        idle: Seconds that it can be idle before it is closed; at most, and by default, the pool's own.
        if_gone: What a run does if the session is gone: `fail` (the default) raises `SessionExpired`, `SessionEvicted`
            or `SessionLost`; `new` makes a new one, and `result.session.fresh` says so. Commands and operations on
            files always fail.
        reset: Whether the first run begins a new session, even if one of this name is alive.
        checkpoint: `after_job`: after each run, the fleet stores the files in `/workspace` and `/session`. They then
            survive the death of the session's worker: the next session of this name begins with them.
            `result.session.checkpointed` says that they are stored.
        checkpoint_ttl: Seconds that each checkpoint is kept; at most, and by default, as the fleet says.
        restore: Name of another session of yours: if this session is new and has no checkpoint of its own, it begins
            with the files of that one's. If there are none, a run raises `CheckpointMissing`.
    """

    language: str
    pool: str
    idle: float
    if_gone: Literal["fail", "new"]
    reset: bool
    checkpoint: Literal["after_job"]
    checkpoint_ttl: float
    restore: str


class AsyncSession:
    """An interpreter that stays alive between runs, and keeps its variables and its files.

    Attributes:
        name: Its name, with which `connect` finds it again.
        files: Its files.
    """

    def __init__(
        self, sandbox: "AsyncSandbox", name: str | None, settings: SessionSettings, *, attached: bool = False
    ) -> None:
        if unknown := settings.keys() - SessionSettings.__annotations__.keys():
            raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
        self.name = f"s-{uuid.uuid4().hex}" if name is None else name
        self._sandbox = sandbox
        self._reset = settings.get("reset", False)
        self._settings = settings
        self._left = False
        self._used = attached
        self._attached = attached
        self._making: asyncio.Task[None] | None = None
        self.files = AsyncFiles(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave(failed=error is not None)

    async def run(self, code: str = "", **options: Unpack[RunOptions]) -> AsyncResult:
        """Runs a program in the session; as `AsyncSandbox.run`.

        Raises:
            SessionExpired: The session was idle for too long.
            SessionEvicted: It made room for another session.
            SessionLost: It was lost with its worker, or with its interpreter.
        """
        return await self._sandbox.run(code, **cast("RunOptions", {**options, **self.claim()}))

    def stream(self, code: str = "", **options: Unpack[StreamOptions]) -> AsyncStream:
        """Runs a program in the session, and gives its events; as `AsyncSandbox.stream`."""
        return self._sandbox.stream(code, **cast("StreamOptions", {**options, **self.claim()}))

    async def submit(self, code: str = "", **options: Unpack[StreamOptions]) -> AsyncRun:
        """Begins a program in the session that goes on without this process; as `AsyncSandbox.submit`.

        A session that no run has made yet is made first.
        """
        await self.connection()
        return await self._sandbox.submit(code, **cast("StreamOptions", {**options, **self.claim()}))

    async def exec(self, command: Command, **options: Unpack[ExecOptions]) -> ExecResult:
        """Runs a command beside the session's programs, and waits for its result.

        If the task that waits is cancelled, the command is killed. Processes that the command leaves in the background
        live on until the session ends. A session that no run has made yet is made first.

        Args:
            command: A command line for `bash`, or a list of a program and its arguments.
            options: See `ExecOptions` and `CommandOptions`.

        Returns:
            The result, also if the command failed or took too long. With `check=True`, only if it exited with 0.

        Raises:
            FileError: The command could not be started: there is no such program (`FileNotFound`), for example.
            OutputLimit: It wrote more than `max_output`, and was killed. `exec_result` has the beginning.
            SessionExpired: The session was idle for too long.
            SessionEvicted: It made room for another session.
            SessionLost: It was lost with its worker, or with its interpreter.
        """
        content, check = options.pop("input", None), options.pop("check", False)
        async with await AsyncProcess.start(self, command, options, content=content) as process:
            result = await process.wait()
        if check:
            result.raise_for_status()
        return result

    async def popen(self, command: Command, *, stdin: bool = False, **options: Unpack[CommandOptions]) -> AsyncProcess:
        """Starts a command beside the session's programs, and gives its output as it comes.

        Args:
            command: A command line for `bash`, or a list of a program and its arguments.
            stdin: Whether to open standard input, for `process.stdin`. By default, it is empty.
            options: See `CommandOptions`.
        """
        return await AsyncProcess.start(self, command, options, stdin=stdin)

    async def keepalive(self) -> None:
        """Lets the session's idle time begin anew, as any run and any other use does.

        Raises:
            SessionExpired: The session was idle for too long.
            SessionEvicted: It made room for another session.
            SessionLost: It was lost with its worker, or with its interpreter.
        """
        await ask(self, {"keepalive": {}})

    async def close(self) -> None:
        """Ends the session, after the runs that it has got. If it is gone already, nothing happens."""
        if self._left or not self._used:
            self._left = True
            return
        claim = self.claim()
        claim["session_options"] = {"close": True}
        claim["tools"] = []
        self._left = True
        with contextlib.suppress(SessionExpired, SessionEvicted, SessionLost):
            await self._sandbox.run("", **claim)
        self._sandbox.begun.discard(self.name)

    def detach(self) -> str:
        """Lets go of the session without ending it: it lives on until it has been idle for too long.

        Returns:
            Its name, for `connect`.
        """
        self._left = True
        self._sandbox.begun.discard(self.name)
        return self.name

    async def leave(self, *, failed: bool) -> None:
        """What the end of a `with` block does: ends a session that was made here, and detaches from any other.

        Args:
            failed: Whether the block raised. Its error is then the one to tell.
        """
        if self._attached:
            self.detach()
            return
        try:
            await self.close()
        except ThermaeError as error:
            # In a forked child, the session is the parent's.
            if not failed and not isinstance(error, ForkedClientError):
                raise

    async def attach(self) -> None:
        """Makes sure that the session is alive.

        Raises:
            SessionNotFound: It is not.
        """
        try:
            await self.keepalive()
            self._sandbox.begun.add(self.name)
            if "idle" in self._settings:
                await self.run("", tools=[])
        except (SessionExpired, SessionEvicted) as error:
            raise SessionNotFound(f"the session {self.name} is gone: {error.message}") from error
        except SessionLost as error:
            raise SessionNotFound(f"there is no session {self.name}") from error

    async def connection(self) -> Connection:
        """Makes sure that the session was made, and gives the connection to its fleet."""
        if self._left:
            raise SandboxClosed("the session is closed or detached")
        connection = await self._sandbox.connection()
        if not self._used or self._making is not None:
            if self._making is None or self._making.done():
                self._making = asyncio.create_task(self._make())
                self._making.add_done_callback(_is_seen)
            # A caller that is cancelled meanwhile cancels it for nobody else.
            await asyncio.shield(self._making)
        elif (beginning := self._sandbox.beginning.get(self.name)) is not None:
            await beginning.wait()  # A run that goes on makes it.
        return connection

    async def _make(self) -> None:
        reset = self._reset
        try:
            await self.run("", tools=[])
        except ThermaeError:
            self._reset = reset
            raise
        self._making = None

    def claim(self) -> StreamOptions:
        """The options that make a job one of this session's."""
        if self._left:
            raise SandboxClosed("the session is closed or detached")
        how: SessionOptions = {"if_gone": self._settings.get("if_gone", "fail")}
        if self._reset:
            how["reset"] = True
        if "idle" in self._settings:
            how["idle"] = self._settings["idle"]
        if "checkpoint" in self._settings:
            how["checkpoint"] = self._settings["checkpoint"]
        if "checkpoint_ttl" in self._settings:
            how["checkpoint_ttl"] = self._settings["checkpoint_ttl"]
        if "restore" in self._settings:
            how["restore"] = self._settings["restore"]
        self._reset, self._used = False, True
        claim: StreamOptions = {"session": self.name, "session_options": how}
        if "pool" in self._settings:
            claim["pool"] = self._settings["pool"]
        if "language" in self._settings:
            claim["language"] = self._settings["language"]
        return claim


def _is_seen(task: "asyncio.Task[None]") -> None:
    """Looks at a task's error, which asyncio would log if all who waited for it were cancelled."""
    if not task.cancelled():
        task.exception()
