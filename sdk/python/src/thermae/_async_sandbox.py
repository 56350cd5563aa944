"""A fleet, for programs with an event loop."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from thermae import _fork
from thermae._approvals import EVERY_CALL, Approve
from thermae._async_batch import AsyncBatch
from thermae._async_run import AsyncRun
from thermae._async_session import AsyncSession, SessionSettings
from thermae._async_stream import AsyncStream
from thermae._capabilities import Capability, capabilities_to_wire, checked_token
from thermae._connection import Connection
from thermae._course import Course
from thermae._error import ThermaeError
from thermae._jobs import Job, JobOptions, RunOptions, StreamOptions, job_from
from thermae._options import EmbeddedOptions
from thermae._request import WINDOW
from thermae._results import AsyncResult
from thermae._retry import LOST, MAX_RETRIES, is_transient
from thermae._tools import AnyTool, tools_by_name
from thermae._watch import EVERYTHING, Watch
from thermae._way import Way
from thermae.errors import ConnectionLost, ForkedClientError, SandboxClosed, WrongLoopError

if TYPE_CHECKING:
    from ssl import SSLContext


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A live session, as its worker last reported it.

    Attributes:
        id: Name of the session.
        pool: Its pool.
        worker: Id of the worker that holds it.
        expires_in: Seconds until it is closed if it gets no job.
    """

    id: str
    pool: str
    worker: str
    expires_in: float


class AsyncSandbox:
    """A fleet that runs code in fresh sandboxes, for programs with an event loop.

    Without a URL, the fleet is embedded: it runs on this machine, and ends with this object. The sandbox opens at the
    start of its `async with` block, or with its first job, and belongs to that event loop and that process.

    Async tools run on the caller's event loop, all others in threads.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        tenant: str | None = None,
        tools: Iterable[AnyTool] = (),
        sync_tools: bool = False,
        capabilities: Sequence[Capability] | None = None,
        token: str | None = None,
        approve: Approve | None = None,
        ssl_context: "SSLContext | None" = None,
        **embedded: Unpack[EmbeddedOptions],
    ) -> None:
        """Names a fleet. Nothing is opened yet.

        Args:
            url: URL of the fleet's gateway (`https://…`), or of its RabbitMQ (`amqps://…`); by default, that in
                `THERMAE_URL`, and else the embedded fleet, which `"embedded"` names in any case.
            api_key: Key for the gateway; by default, that in `THERMAE_API_KEY`.
            tenant: The tenant, if it is not the user of RabbitMQ's URL; by default, that in `THERMAE_TENANT`. A gateway
                knows it by the key.
            tools: Functions that the code of every job can call.
            sync_tools: Whether calling a tool gives its result. By default, the code awaits it: `await get_sales(...)`.
            capabilities: What the code of every job can do with its tools; by default, whatever the tools allow.
            token: A capability token for the calls of every job.
            approve: Decides about calls that need approval by their capability, or about every call if no
                `capabilities` are named: it gets an `Approval`, and gives a `Verdict`. It can be async. Without it,
                calls that need approval wait for somebody else who may approve, or are denied if nobody else reaches
                the fleet. Those of `submit` wait for `Run.decide` in any case.
            ssl_context: Settings of TLS for the gateway; by default, those of Python.
            embedded: Options of the embedded fleet; see `EmbeddedOptions`.

        Raises:
            BadTool: Something in `tools` can't be a tool.
            TypeError: `capabilities` is no list, `token` is no text, or `approve` is no function.
            ValueError: An option has a value that can't be used.
        """
        self._way = Way(url, tenant, api_key, ssl_context, embedded)
        self._connection: Connection | None = None
        self._closed = False
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self.tools = tools_by_name(tools)
        self.sync_tools = sync_tools
        self.token = checked_token(token)
        if approve is not None and not callable(approve):
            raise TypeError(f"approve must be a function, not {approve!r}")
        self.approve = approve
        named = capabilities_to_wire(capabilities)
        self.capabilities = list(EVERY_CALL) if named is None and approve is not None else named
        self.tool_loop: asyncio.AbstractEventLoop | None = None
        self.under_way: dict[str, Course] = {}
        self.beginning: dict[str, asyncio.Event] = {}
        self.begun: set[str] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._way!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a sandbox can't be sent to another process: make one there")

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # A copy of what refers to it, such as an artifact, refers to it, too.

    async def __aenter__(self) -> Self:
        await self.connection()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def facts(self) -> dict[str, Any]:
        """What the fleet said about itself when it was opened, such as `tenant` and `embedded`."""
        return dict(self._connection.facts) if self._connection else {}

    @property
    def is_alone(self) -> bool:
        """Whether nobody else reaches the fleet."""
        return self._way.is_bridge

    @property
    def packages(self) -> dict[str, str]:
        """The version of each package that `packages=` has brought, by its name. Empty before the sandbox is open."""
        return self._way.packages

    async def run(self, code: str | Job = "", **options: Unpack[RunOptions]) -> AsyncResult:
        """Runs a program, and waits for its result.

        If the task that waits is cancelled, the job is cancelled.

        Args:
            code: The program, or a whole `Job`.
            options: See `RunOptions` and `JobOptions`. Callbacks can be async.

        Returns:
            The result, also if the program raised or reached a limit. With `check=True`, only if it succeeded.

        Raises:
            ThermaeError: The job never ran (its code is such as `limit_too_high` or `session_expired`), was lost, or
                there is no fleet.
        """
        watch = Watch(options)
        async with self.start(code, watch.kinds, cast("StreamOptions", options)) as stream:
            async for event in stream:
                await watch.see_async(event)
        result = cast("AsyncResult", stream.result)
        watch.checked(result)
        return result

    def stream(self, code: str | Job = "", **options: Unpack[StreamOptions]) -> AsyncStream:
        """Runs a program, and gives its events as they come: `async for event in sandbox.stream(code)`.

        Args:
            code: The program, or a whole `Job`.
            options: See `StreamOptions` and `JobOptions`.
        """
        return self.start(code, EVERYTHING, options)

    async def submit(self, code: str | Job = "", **options: Unpack[StreamOptions]) -> AsyncRun:
        """Begins a program that goes on without this process, and returns when the fleet has it.

        Nothing but `cancel` cancels it. Its tool calls wait for whoever follows it, unless `if_client_gone="fail"`.

        Args:
            code: The program, or a whole `Job`.
            options: See `StreamOptions` and `JobOptions`.

        Raises:
            ThermaeError: The job could not be submitted.
        """
        retries = options.pop("max_retries", MAX_RETRIES)
        return await AsyncRun.submit(self, job_from(code, options), retries)

    async def attach(self, run_id: str, *, take_over: bool = True) -> AsyncRun:
        """Takes a run over, whoever submitted it: from now on, its calls, events and result come here.

        Whoever followed it before gets `Superseded`. This sandbox's tools answer the run's calls, also those that wait.

        Args:
            run_id: Id of the run: `run.id`, or that of any job of the tenant.
            take_over: Whether to follow the run. If not, whoever follows it goes on to do so, and only `info`,
                `pending`, `answer` and `cancel` of this object can be used.

        Raises:
            UnknownRun: The fleet has no record of such a run.
            NoAnswer: The fleet did not answer in time.
        """
        return await AsyncRun.attach(run_id, self, take_over=take_over)

    def session(self, name: str | None = None, **settings: Unpack[SessionSettings]) -> AsyncSession:
        """An interpreter that keeps its variables from one run to the next.

        The first run makes it. At the end of its `async with` block it is closed, unless it was detached.

        Args:
            name: Its name, unique in the tenant; by default, a random one.
            settings: See `SessionSettings`.
        """
        return AsyncSession(self, name, settings)

    async def connect(self, name: str, **settings: Unpack[SessionSettings]) -> AsyncSession:
        """A session that is alive already. At the end of its `async with` block it is detached, not closed.

        Its idle time begins anew by this. It does not wait for the session's programs.

        Raises:
            SessionNotFound: There is no such session, or it is gone.
        """
        session = AsyncSession(self, name, settings, attached=True)
        await session.attach()
        return session

    def batch(
        self,
        jobs: Iterable[str | Job] | AsyncIterable[str | Job],
        *,
        concurrency: int = 32,
        results: "str | os.PathLike[str] | None" = None,
        retry: Collection[str] = (),
        **options: Unpack[JobOptions],
    ) -> AsyncBatch:
        """Runs many programs, and gives each result as soon as it is there: `async for done in sandbox.batch(jobs)`.

        Args:
            jobs: The programs. They are taken as there is room for them.
            concurrency: How many of them are under way at once.
            results: A file that gets each result as soon as it is there. Jobs that have a result in it are left out:
                so the same batch goes on where it was interrupted. Each job needs a `job_id`.
            retry: Statuses of results in the file that don't count, such as `("lost",)`: those jobs run again, under
                other ids.
            options: Options of all programs that are text; a `Job` has its own.
        """
        return AsyncBatch(self, jobs, concurrency, options, results, retry)

    async def cancel(self, job_id: str) -> bool:
        """Cancels a job of this sandbox that is under way. Its run then ends, as a rule with the status `cancelled`.

        Returns:
            Whether there was such a job.
        """
        course = self.under_way.get(job_id)
        return course is not None and course.cancel()

    async def sessions(self) -> list[SessionInfo]:
        """The live sessions of the tenant, as the workers last reported them."""
        connection = await self.connection()
        async with connection.request("sessions", {}) as request:
            async for _ in request.answers(asyncio.get_running_loop().time()):
                pass
        listed = json.loads(request.payload)
        return [SessionInfo(one["id"], one["pool"], one["worker"], one["expires_in_ms"] / 1000) for one in listed]

    async def close(self) -> None:
        """Cancels what is under way and ends the connection; an embedded fleet ends, too. Can be called twice."""
        self._closed = True
        await self._drop()
        self._way.close()

    def start(self, code: str | Job, kinds: Sequence[str], options: StreamOptions) -> AsyncStream:
        """A job with its options, ready to begin. `kinds` are the live events that somebody wants."""
        retries = options.pop("max_retries", MAX_RETRIES)
        return AsyncStream(self, job_from(code, options), kinds, retries)

    def may_retry(self, error: ThermaeError) -> bool:
        """Whether a job that failed so can be submitted again, under the same id, without running twice."""
        return is_transient(error) and not self._closed and not (self._way.is_embedded and error.code in LOST)

    async def fetch(self, ref: str, url: str | None) -> AsyncIterator[bytes]:
        """The content of an artifact, piece by piece: from the bridge, or else from the artifact's own URL."""
        connection = await self.connection()
        try:
            async with connection.request("artifact", {"ref": ref, "window": WINDOW}) as request:
                async for piece in request.answers(asyncio.get_running_loop().time()):
                    yield piece
        except ThermaeError as error:
            if error.code != "no_store" or url is None:
                raise
            from thermae._download import download  # Few programs need it, and it imports much.

            async for piece in download(url):
                yield piece

    async def connection(self) -> Connection:
        """The connection, opened if there is none.

        Raises:
            ForkedClientError: Another process opened it.
            WrongLoopError: It was opened on another event loop.
            SandboxClosed: The sandbox is closed.
            ConnectionLost: The embedded fleet has ended, and its sessions with it.
        """
        if self._pid not in (0, os.getpid()):
            raise ForkedClientError
        if self._closed:
            raise SandboxClosed
        if self._loop not in (None, asyncio.get_running_loop()):
            raise WrongLoopError
        if self._connection is not None and not self._connection.lost:
            return self._connection
        async with self._lock:
            if self._connection is None or (self._connection.lost and not self._way.is_bridge):
                await self._drop()
                self._pid, self._loop = os.getpid(), asyncio.get_running_loop()
                self._connection = await self._way.open(self.tools.values())
            if self._connection.lost:
                raise ConnectionLost("the embedded fleet has ended, and its sessions with it")
            return self._connection

    def connection_here(self) -> Connection | None:
        """The connection, for another thread than the event loop's; `None` if `connection` has to open or refuse it."""
        connection = self._connection
        if connection is None or connection.lost or self._closed or self._pid != os.getpid():
            return None
        # At the end of the interpreter the event loop's thread has stopped.
        return None if sys.is_finalizing() else connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        # In a forked child there is nothing to close: the connection is the parent's.
        if connection is not None and self._pid == os.getpid():
            await connection.close()
            _fork.release(connection.transport)
