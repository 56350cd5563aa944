"""A run that goes on without its client, on an event loop."""

import asyncio
import collections
import copy
import functools
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, Self

from thermae._approvals import Approvals, Verdict, decide, verdict_to_wire
from thermae._calls import LARGEST_ANSWER, ToolCalls, answer_of, failure_of
from thermae._error import ThermaeError
from thermae._events import Approval, Audit, Decided, Described, Ended, Hold, LiveEvent, ToolCall, read_event
from thermae._jobs import Job
from thermae._kept import live_session, look_elsewhere
from thermae._made_calls import LONGEST
from thermae._request import END, SUBMITTED, WINDOW, Request
from thermae._results import AsyncResult, read_result
from thermae._retry import pause
from thermae._run_info import PendingCall, RunInfo, approvals_of, calls_of, read_info
from thermae._tools import Tool
from thermae._watch import EVERYTHING
from thermae.errors import Cancelled, ConnectionLost, RunDetached, UnknownCall, UnknownRun

if TYPE_CHECKING:
    from thermae._async_sandbox import AsyncSandbox


class AsyncRun:
    """A run that its client need not wait for.

    `AsyncSandbox.submit` begins one, and `AsyncSandbox.attach` takes one over. Nothing cancels it but `cancel`: it goes
    on when this object, or the whole process, is gone. (An embedded fleet itself ends with its sandbox.)

    While this object follows the run, calls of tools that have a function are answered by it, without anybody waiting.
    All other calls wait for `answer`, of this process or of another one.

    Attributes:
        id: Id of the run, which is that of its job. Any process of the tenant can attach to it.
    """

    def __init__(self, sandbox: "AsyncSandbox", run_id: str, tools: Mapping[str, Tool[..., Any]]) -> None:
        self.id = run_id
        self._sandbox = sandbox
        self._tools = tools
        self._calls = ToolCalls(tools, sandbox.tool_loop)
        self._approvals = Approvals(sandbox, self._fail, others=True)
        self._request: Request | None = None
        self._reply_keys: dict[str, str] = {}
        self._answered: set[str] = set()
        self._events: collections.deque[tuple[LiveEvent, int]] = collections.deque()
        self._kept = 0
        self._readers = 0
        self._news = asyncio.Event()
        self._taken = asyncio.Event()
        self._begun = asyncio.Event()
        self._done = asyncio.Event()
        self._outcome: dict[str, Any] | None = None
        self._result: AsyncResult | None = None
        self._error: ThermaeError | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    @classmethod
    async def attach(cls, run_id: str, sandbox: "AsyncSandbox", *, take_over: bool = True) -> Self:
        """As `AsyncSandbox.attach`."""
        run = cls(sandbox, run_id, sandbox.tools)
        if take_over:
            await run._begin("attach", {"job": run_id})
        return run

    @classmethod
    async def submit(cls, sandbox: "AsyncSandbox", job: Job, max_retries: int) -> Self:
        """Submits a job that goes on without this process; see `AsyncSandbox.submit`."""
        tools = job.tools(sandbox.tools)
        allowed = job.capabilities(sandbox.capabilities)
        token = job.token(sandbox.token, tools)
        job.must_start = False  # Nobody waits for it.
        kinds = (*EVERYTHING, "audit") if job.is_bounded(tools, allowed, token) else EVERYTHING
        failures = 0
        while True:
            try:
                payload = job.to_wire(
                    tools, allowed, token, kinds, if_client_gone="wait", sync_tools=sandbox.sync_tools
                )
                run = cls(sandbox, job.id, tools)
                await (await sandbox.connection()).check_tools(tools.values())
                await run._begin("run", {"detached": True}, payload)
            except ThermaeError as error:
                if failures >= max_retries or not sandbox.may_retry(error):
                    raise
                await asyncio.sleep(pause(failures))
                failures += 1
            else:
                return run

    async def _begin(self, kind: str, fields: dict[str, Any], payload: bytes = b"") -> None:
        """Submits the job, or takes the run over, and returns when the fleet has it."""
        connection = await self._sandbox.connection()
        fields = {"window": WINDOW, **fields}
        request = await connection.begin(kind, fields, payload, job=self.id, on_arrival=self._arrived)
        self._request = request
        connection.spawn(self._follow(request))
        try:
            await self._begun.wait()
        except asyncio.CancelledError:
            if kind == "run":
                request.cancel()
            await self.detach()
            raise
        if self._error is not None:
            raise copy.copy(self._error)

    async def info(self, *, stdout_from: int = 0, stderr_from: int = 0) -> RunInfo:
        """What the fleet knows of the run now. It changes nothing, whoever follows the run.

        Args:
            stdout_from: How many bytes of standard output to leave out: `info.stdout.end` of an earlier answer.
            stderr_from: How many bytes of standard error to leave out.

        Raises:
            NoAnswer: The fleet did not answer in time.
        """
        for name, value in (("stdout_from", stdout_from), ("stderr_from", stderr_from)):
            if value < 0:
                raise ValueError(f"{name} must be a number of bytes, not {value}")
        fields = {"job": self.id, "stdout_from": stdout_from, "stderr_from": stderr_from}
        info = read_info(await self._ask("run_info", fields), stdout_from, stderr_from)
        self._reply_keys |= {one.call: one.reply_to for one in info.calls}
        return info

    async def pending(self) -> list[PendingCall]:
        """The tool calls that wait for `answer`, the oldest first.

        Those that a function of this object's tools is about to answer are not among them.
        """
        calls = (await self.info()).calls
        return [one for one in calls if one.call not in self._answered and not self._calls.runs(one.call)]

    async def answer(
        self, call: PendingCall | ToolCall | str, value: Any = None, *, error: BaseException | str | None = None
    ) -> None:
        """Answers a tool call. Returns when the fleet has the answer.

        The first answer of a call counts, whoever gives it. Another one changes nothing.

        Args:
            call: The call, or its id.
            value: What the code gets: anything that JSON can express, or what the tool's return hint allows.
            error: Why the tool failed: the code gets a `ToolError` with this text, or with this exception's type and
                text.

        Raises:
            UnknownCall: No such call of this run waits, as far as the fleet can tell.
            TypeError: JSON can't express the value.
            ValueError: The answer is too large.
        """
        if isinstance(call, str):
            call_id, tool = call, None
            if call_id not in self._reply_keys and call_id not in self._answered:
                await self.info()
            reply_to = self._reply_keys.get(call_id, "")
        else:
            call_id, tool = call.call, self._tools.get(call.tool)
            reply_to = call.reply_to if call.job_id == self.id else ""
        if call_id in self._answered:
            return
        if not reply_to:
            raise UnknownCall(f"no call {call_id!r} of this run waits for an answer", request_id=self.id)
        payload = failure_of(error) if error is not None else answer_of(value, tool)
        if len(payload) > LARGEST_ANSWER:
            raise ValueError(f"the answer has {len(payload)} bytes, more than {LARGEST_ANSWER}")
        await self._ask("answer", {"call": call_id, "reply_to": reply_to}, payload)
        self._answered.add(call_id)
        self._calls.log.end(call_id, "answered", payload[:LONGEST].decode(errors="replace"))
        self._calls.give_up(call_id)

    async def decide(self, asked: Approval, verdict: Verdict) -> None:
        """Decides about a call that waits for approval. Returns when the fleet has taken the decision.

        The first decision about a call counts, whoever makes it. The same one again changes nothing.

        Args:
            asked: The call: of `info`, or of `events`.
            verdict: See `Verdict`.

        Raises:
            ApprovalDecided: The call was decided otherwise before.
            ApprovalOver: No such call of this run waits for approval.
            ScopeMissing: The API key may not approve.
            TypeError: It is no verdict.
        """
        await decide(self._sandbox, asked, verdict_to_wire(verdict, asked.next))

    async def result(self, timeout: float | None = None) -> AsyncResult:
        """Waits for the result. The run goes on if the wait ends early.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            The result, also if the program raised or reached a limit.

        Raises:
            TimeoutError: It did not come in time.
            Superseded: Another process, or another object of this one, has taken the run over.
            RunDetached: This object does not follow the run.
            ConnectionLost: The connection to the fleet ended. The run goes on; attach to it again.
            ThermaeError: The job never ran (its code is such as `limit_too_high`), or was lost.
        """
        self._expect_following()
        async with asyncio.timeout(timeout):
            await self._done.wait()
        result = self._ended()
        await look_elsewhere(self._sandbox, result)
        if result.status in ("rejected", "lost"):
            result.raise_for_status()
        return result

    async def events(self) -> AsyncGenerator[LiveEvent | AsyncResult, None]:
        """The events of the run, as they come; its result is the last one. Leave early, and nothing happens to the run.

        Calls that wait already come first. What the code wrote before this object followed the run is in `info`. Of
        what came since then and nobody has taken, the last mebibyte is kept.

        Raises:
            Superseded: Another process, or another object of this one, has taken the run over.
            RunDetached: This object does not follow the run.
        """
        self._expect_following()
        self._readers += 1
        try:
            while True:
                while self._events:
                    event, size = self._events.popleft()
                    self._kept -= size
                    self._taken.set()
                    yield event
                if self._done.is_set():
                    yield self._ended()
                    return
                self._news.clear()
                await self._news.wait()
        finally:
            self._readers -= 1
            self._taken.set()

    async def cancel(self) -> None:
        """Cancels the run, whoever follows it. It ends as `cancelled`, unless it ended before."""
        await self._ask("cancel_run", {"job": self.id})

    async def detach(self) -> None:
        """Stops following the run, which goes on. Its calls wait for whoever attaches to it."""
        if self._request is not None and not self._done.is_set():
            self._fail(RunDetached(request_id=self.id))
            self._request.detach()

    async def _ask(self, kind: str, fields: dict[str, Any], payload: bytes = b"") -> bytes:
        connection = await self._sandbox.connection()
        async with connection.request(kind, fields, payload, job=self.id) as request:
            async for _ in request.answers(asyncio.get_running_loop().time()):
                pass
        return request.payload

    def _expect_following(self) -> None:
        if self._request is None:
            raise RunDetached(request_id=self.id)

    def _ended(self) -> AsyncResult:
        if self._error is not None:
            raise copy.copy(self._error)
        if self._result is None:
            outcome = self._outcome or {}
            live = live_session(self._sandbox, outcome)
            self._result = read_result(self.id, outcome, self._sandbox.fetch, self._calls.log, live)
        return self._result

    async def _follow(self, request: Request) -> None:
        """Takes what comes to the end of the run, or of this object's interest in it."""
        try:
            while (item := await request.next()) is not END:
                if item is not SUBMITTED and item[0] is not None:
                    await self._take(*item)
                self._begun.set()
            self._fail(ConnectionLost("the run ended without an outcome", request_id=self.id))
        except Cancelled as error:
            # It was cancelled before the fleet had it, so it has no outcome of the fleet's.
            self._end({"status": "cancelled", "error": {"code": error.code, "message": error.message}})
        except ThermaeError as error:
            self._fail(error)
        except asyncio.CancelledError:
            self._fail(ConnectionLost("the sandbox was closed", request_id=self.id))
            raise

    async def _take(self, event: LiveEvent | Ended | Described, size: int) -> None:
        if isinstance(event, Ended):
            self._end(event.outcome)
        elif isinstance(event, Described):
            if event.raw["state"] == "unknown":
                self._fail(UnknownRun(request_id=self.id))
            waiting: list[LiveEvent] = [*calls_of(event.raw), *approvals_of(event.raw)]
            for one in waiting:
                await self._keep(one, 0)
        else:
            await self._keep(event, size)

    async def _keep(self, event: LiveEvent, size: int) -> None:
        while self._readers and self._kept > WINDOW and not self._done.is_set():
            self._taken.clear()
            await self._taken.wait()
        self._events.append((event, size))
        self._kept += size
        while not self._readers and self._kept > WINDOW:
            self._kept -= self._events.popleft()[1]
        self._news.set()

    def _arrived(self, request: Request, payload: bytes) -> tuple[LiveEvent | Ended | Described | None, int]:
        """Reads an event as soon as it is there. Tool calls don't wait for whoever reads the events."""
        event = read_event(payload)
        if isinstance(event, Hold):
            self._calls.hold(event.seconds)
            return None, len(payload)
        if isinstance(event, Decided):
            self._approvals.over(event.call)
            return None, len(payload)
        if isinstance(event, Audit):
            self._calls.log.see(event)
            return None, len(payload)
        if not self._done.is_set():
            waiting = [event] if isinstance(event, Approval) else []
            for asked in approvals_of(event.raw) if isinstance(event, Described) else waiting:
                self._approvals.begin(asked)
        calls = [event] if isinstance(event, ToolCall) else calls_of(event.raw) if isinstance(event, Described) else []
        for call in calls:
            self._reply_keys[call.call] = call.reply_to
            if not self._done.is_set():
                fields = {"type": "tool_result", "call": call.call}
                self._calls.begin(call, functools.partial(request.reply, fields))
        if isinstance(event, Ended):
            self._end_calls()
        return event, len(payload)

    def _end(self, outcome: dict[str, Any]) -> None:
        if not self._done.is_set():
            self._outcome = outcome
            self._wake()

    def _fail(self, error: ThermaeError) -> None:
        if not self._done.is_set():
            self._error = error
            self._wake()

    def _wake(self) -> None:
        self._done.set()
        self._end_calls()
        self._news.set()
        self._taken.set()
        self._begun.set()

    def _end_calls(self) -> None:
        self._calls.end()
        self._approvals.end()
