"""A fleet, for programs without an event loop."""

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import Collection, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from thermae._approvals import Approve
from thermae._async_sandbox import AsyncSandbox, SessionInfo
from thermae._async_session import SessionSettings
from thermae._batch import Batch
from thermae._capabilities import Capability
from thermae._jobs import Job, JobOptions, RunOptions, StreamOptions
from thermae._loop import Runner, running_loop
from thermae._options import EmbeddedOptions
from thermae._results import Result
from thermae._run import Run
from thermae._session import Session
from thermae._stream import Stream
from thermae._tools import AnyTool
from thermae._watch import EVERYTHING, Watch
from thermae.errors import BlockedLoopError

if TYPE_CHECKING:
    from ssl import SSLContext


class Sandbox:
    """A fleet that runs code in fresh sandboxes.

    Without a URL, the fleet is embedded: it runs on this machine, and ends with this object. The sandbox opens at the
    start of its `with` block, or with its first job, and belongs to that process. Threads can share it. It also works
    where an event loop runs already, as in a notebook.

    Async tools run on an event loop in a thread of the sandbox (or on `loop`), all others in threads of their own.
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
        loop: asyncio.AbstractEventLoop | None = None,
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
                `capabilities` are named: it gets an `Approval`, and gives a `Verdict`. It runs where tools do. Without
                it, calls that need approval wait for somebody else who may approve, or are denied if nobody else
                reaches the fleet. Those of `submit` wait for `Run.decide` in any case.
            loop: Event loop for async tools, running in another thread than those that run programs.
            ssl_context: Settings of TLS for the gateway; by default, those of Python.
            embedded: Options of the embedded fleet; see `EmbeddedOptions`.

        Raises:
            BadTool: Something in `tools` can't be a tool.
            TypeError: `capabilities` is no list, `token` is no text, or `approve` is no function.
            ValueError: An option has a value that can't be used.
        """
        self._async = AsyncSandbox(
            url,
            api_key=api_key,
            tenant=tenant,
            tools=tools,
            sync_tools=sync_tools,
            capabilities=capabilities,
            token=token,
            approve=approve,
            ssl_context=ssl_context,
            **embedded,
        )
        self._async.tool_loop = loop
        self._starting = threading.Lock()
        self._started: Runner | None = None

    def __repr__(self) -> str:
        return repr(self._async).replace("AsyncSandbox", type(self).__name__)

    def __reduce__(self) -> Any:
        return self._async.__reduce__()

    def __enter__(self) -> Self:
        self._runner.run(self._async.connection())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def facts(self) -> dict[str, Any]:
        """What the fleet said about itself when it was opened, such as `tenant` and `embedded`."""
        return self._async.facts

    @property
    def packages(self) -> dict[str, str]:
        """The version of each package that `packages=` has brought, by its name. Empty before the sandbox is open."""
        return self._async.packages

    def run(self, code: str | Job = "", **options: Unpack[RunOptions]) -> Result:
        """Runs a program, and waits for its result. Ctrl-C cancels the job.

        Args:
            code: The program, or a whole `Job`.
            options: See `RunOptions` and `JobOptions`. Callbacks are called in this thread.

        Returns:
            The result, also if the program raised or reached a limit. With `check=True`, only if it succeeded.

        Raises:
            ThermaeError: The job never ran (its code is such as `limit_too_high` or `session_expired`), was lost, or
                there is no fleet.
        """
        watch = Watch(options)
        rest = cast("StreamOptions", options)
        runner = self._runner
        if watch.idle:
            job = self._async.start(code, (), rest)
            done = None if runner.is_here() else job.run_here()
            result = (done or runner.run(job.finish())).to_sync(runner)
        else:
            with Stream(self._async.start(code, watch.kinds, rest), runner) as stream:
                for event in stream:
                    watch.see_sync(event)
            result = cast("Result", stream.result)
        watch.checked(result)
        return result

    def stream(self, code: str | Job = "", **options: Unpack[StreamOptions]) -> Stream:
        """Runs a program, and gives its events as they come: `for event in sandbox.stream(code)`.

        Args:
            code: The program, or a whole `Job`.
            options: See `StreamOptions` and `JobOptions`.
        """
        return Stream(self._async.start(code, EVERYTHING, options), self._runner)

    def submit(self, code: str | Job = "", **options: Unpack[StreamOptions]) -> Run:
        """Begins a program that goes on without this process, and returns when the fleet has it.

        Nothing but `cancel` cancels it. Its tool calls wait for whoever follows it, unless `if_client_gone="fail"`.

        Args:
            code: The program, or a whole `Job`.
            options: See `StreamOptions` and `JobOptions`.

        Raises:
            ThermaeError: The job could not be submitted.
        """
        return Run(self._runner.run(self._async.submit(code, **options)), self._runner)

    def attach(self, run_id: str, *, take_over: bool = True) -> Run:
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
        return Run(self._runner.run(self._async.attach(run_id, take_over=take_over)), self._runner)

    def session(self, name: str | None = None, **settings: Unpack[SessionSettings]) -> Session:
        """An interpreter that keeps its variables from one run to the next.

        The first run makes it. At the end of its `with` block it is closed, unless it was detached.

        Args:
            name: Its name, unique in the tenant; by default, a random one.
            settings: See `SessionSettings`.
        """
        return Session(self, self._async.session(name, **settings), self._runner)

    def connect(self, name: str, **settings: Unpack[SessionSettings]) -> Session:
        """A session that is alive already. At the end of its `with` block it is detached, not closed.

        Its idle time begins anew by this. It does not wait for the session's programs.

        Raises:
            SessionNotFound: There is no such session, or it is gone.
        """
        return Session(self, self._runner.run(self._async.connect(name, **settings)), self._runner)

    def batch(
        self,
        jobs: Iterable[str | Job],
        *,
        concurrency: int = 32,
        results: "str | os.PathLike[str] | None" = None,
        retry: Collection[str] = (),
        **options: Unpack[JobOptions],
    ) -> Batch:
        """Runs many programs, and gives each result as soon as it is there: `for done in sandbox.batch(jobs)`.

        Args:
            jobs: The programs. They are taken as there is room for them, in this thread.
            concurrency: How many of them are under way at once.
            results: A file that gets each result as soon as it is there. Jobs that have a result in it are left out:
                so the same batch goes on where it was interrupted. Each job needs a `job_id`.
            retry: Statuses of results in the file that don't count, such as `("lost",)`: those jobs run again, under
                other ids.
            options: Options of all programs that are text; a `Job` has its own.
        """
        return Batch(self._async, self._runner, jobs, concurrency, options, results, retry)

    def cancel(self, job_id: str) -> bool:
        """Cancels a job of this sandbox that another thread runs. Its run then ends, as a rule as `cancelled`.

        Returns:
            Whether there was such a job.
        """
        return self._runner.run(self._async.cancel(job_id))

    def sessions(self) -> list[SessionInfo]:
        """The live sessions of the tenant, as the workers last reported them."""
        return self._runner.run(self._async.sessions())

    def close(self) -> None:
        """Cancels what is under way and ends the connection; an embedded fleet ends, too. Can be called twice."""
        runner, self._started = self._started, None
        if runner is None or runner.pid != os.getpid() or sys.is_finalizing():
            return  # The end of the process ends the bridge.
        self._finalizer.detach()
        try:
            runner.run(self._async.close())
        finally:
            runner.stop()

    @property
    def _runner(self) -> Runner:
        if self._async.tool_loop is not None and self._async.tool_loop is running_loop():
            raise BlockedLoopError
        with self._starting:
            if self._started is None:
                self._started = Runner()
                self._finalizer = weakref.finalize(self, _leave, self._started, self._async)
                self._finalizer.atexit = False  # The end of the process ends the bridge.
            return self._started


def _leave(runner: Runner, sandbox: AsyncSandbox) -> None:
    """Ends what a sandbox that nobody has any more has left open."""
    runner.begin(_close_and_stop(runner, sandbox))


async def _close_and_stop(runner: Runner, sandbox: AsyncSandbox) -> None:
    await sandbox.close()
    runner.loop.stop()
