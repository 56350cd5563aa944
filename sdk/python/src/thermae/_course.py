"""The course of one job: from its submission, and submissions after an error, to its result."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any

from thermae._approvals import Approvals
from thermae._calls import ToolCalls
from thermae._connection import PART
from thermae._error import ThermaeError
from thermae._events import Approval, Audit, Decided, Described, Ended, Hold, LiveEvent, Started, ToolCall, read_event
from thermae._jobs import Job
from thermae._kept import live_session, look_elsewhere, missing_file
from thermae._request import END, WINDOW, Request
from thermae._results import AsyncResult, read_result
from thermae._retry import LOST, pause
from thermae.errors import Cancelled, ConnectionLost

if TYPE_CHECKING:
    from thermae._async_sandbox import AsyncSandbox

_log = logging.getLogger("thermae")


class Course:
    """A job under way.

    Whoever reads its events owns it: if the generator of the events is closed or dropped, the job is cancelled. So
    nothing here refers to that generator.
    """

    def __init__(self, sandbox: "AsyncSandbox", job: Job, kinds: Sequence[str], max_retries: int) -> None:
        self.job = job
        self.result: AsyncResult | None = None
        self.was_cancelled = False
        self._sandbox = sandbox
        self._kinds = set(kinds)
        self._tells_audit = "audit" in self._kinds
        self._retries = max_retries
        self._tools = job.tools(sandbox.tools)
        self._capabilities = job.capabilities(sandbox.capabilities)
        self._token = job.token(sandbox.token, self._tools)
        if job.is_bounded(self._tools, self._capabilities, self._token):
            self._kinds.add("audit")
        self._calls = ToolCalls(self._tools, sandbox.tool_loop)
        self._approvals = Approvals(sandbox, self._may_not_approve, others=not sandbox.is_alone)
        self._request: Request | None = None
        self._begins: asyncio.Event | None = None
        self._outcome: dict[str, Any] | None = None
        self._failed: ThermaeError | None = None

    def cancel(self) -> bool:
        """Cancels the job, if it was submitted. Its events go on to its result."""
        if self._request is None:
            return False
        self.was_cancelled = True
        self._request.cancel()
        return True

    async def events(self) -> AsyncGenerator[LiveEvent | AsyncResult, None]:
        """The events of the job; its result is the last one."""
        self._sandbox.under_way[self.job.id] = self
        if (session := self.job.options.get("session")) and session not in self._sandbox.begun:
            # Commands in the session wait until it is there.
            self._begins = self._sandbox.beginning.setdefault(session, asyncio.Event())
            self._kinds = {*self._kinds, "lifecycle"}
        failures, in_doubt = 0, False
        try:
            while self.result is None:
                try:
                    if self._failed is not None:
                        failed, self._failed = self._failed, None
                        raise failed
                    request, until = await self._submit()
                    try:
                        while (event := await request.next(until)) is not END:
                            if isinstance(event, Ended):
                                # It can come twice, and is the same then.
                                self.result = self.result or self._read(event.outcome)
                            elif event is not None:
                                yield event
                    finally:
                        request.leave()
                    if self.result is None:
                        raise ConnectionLost("the job ended without an outcome", request_id=self.job.id)
                except Cancelled as error:
                    # The job was cancelled before the fleet had it, so it has no outcome of the fleet's.
                    self.result = self._read(
                        {"status": "cancelled", "error": {"code": error.code, "message": error.message}}
                    )
                except ThermaeError as error:
                    # A job that the fleet may have can run, whatever comes of it here.
                    in_doubt = in_doubt or (self._request is not None and error.code in LOST)
                    if failures >= self._retries or not self._sandbox.may_retry(error):
                        error.safe_to_retry = error.safe_to_retry and not in_doubt
                        raise
                    _log.info("job submitted again job=%s code=%s failures=%d", self.job.id, error.code, failures + 1)
                    await asyncio.sleep(pause(failures))
                    failures += 1
            _log.debug("job ended job=%s status=%s", self.job.id, self.result.status)
            await look_elsewhere(self._sandbox, self.result)
            yield self.result
        finally:
            self._end_calls()
            self._sandbox.under_way.pop(self.job.id, None)
            self._session_is_there()

    def run_here(self) -> AsyncResult | None:
        """Runs the job in another thread than the event loop's, without a turn of that thread to begin or to end it.

        Returns:
            The result; `None` if it has to be run by `events`, which goes on where this has ended.

        Raises:
            ThermaeError: The job failed, and can't be submitted again.
        """
        connection, session = self._sandbox.connection_here(), self.job.options.get("session")
        if connection is None or (session and session not in self._sandbox.begun):
            return None
        if not all(tool.is_checked for tool in self._tools.values()):
            return None
        payload = self._wire()
        if len(payload) > PART:
            return None
        allowed = self.job.deadline(can_wait=bool(self._tools))
        until = None if allowed is None else time.monotonic() + allowed
        self._sandbox.under_way[self.job.id] = self
        request = self._request = connection.expect_here(self.job.id, self._arrived_here)
        end: Any = None
        try:
            # Ctrl-C can come before this returns, and the run has begun then.
            connection.send_here(request, "run", {"window": WINDOW}, payload)
            end = request.wait_here(until)
        finally:
            self._sandbox.under_way.pop(self.job.id, None)
            if end is not END:
                connection.call_soon(self._leave)
        if self._outcome is None:
            if end is END:
                end = ConnectionLost("the job ended without an outcome", request_id=self.job.id)
            if not isinstance(end, Cancelled) and not (self._retries and self._sandbox.may_retry(end)):
                raise end
            self._failed = end
            return None
        self.result = self._read(self._outcome)
        if missing_file(self.result) is not None and self._sandbox.begun:
            return None  # Its notes are to come.
        _log.debug("job ended job=%s status=%s", self.job.id, self.result.status)
        return self.result

    def _arrived_here(self, request: Request, payload: bytes) -> None:
        event = self._arrived(request, payload)
        if isinstance(event, Ended):
            self._outcome = self._outcome or event.outcome

    def _may_not_approve(self, error: ThermaeError) -> None:
        if self._request is not None:
            self._request.cancel()
            self._request.fail(error)

    def _leave(self) -> None:
        self._end_calls()
        if self._request is not None:
            self._request.leave()

    def _wire(self) -> bytes:
        allowed, kinds = (self._capabilities, self._token), sorted(self._kinds)
        return self.job.to_wire(self._tools, *allowed, kinds, sync_tools=self._sandbox.sync_tools)

    async def _submit(self) -> tuple[Request, float | None]:
        """Sends the job. Gives also when it must have ended, by the event loop's clock."""
        connection = await self._sandbox.connection()
        await connection.check_tools(self._tools.values())
        payload = self._wire()
        allowed = self.job.deadline(can_wait=bool(self._tools))
        until = None if allowed is None else asyncio.get_running_loop().time() + allowed
        self._request = await connection.begin(
            "run", {"window": WINDOW}, payload, job=self.job.id, on_arrival=self._arrived
        )
        return self._request, until

    def _read(self, outcome: dict[str, Any]) -> AsyncResult:
        live = live_session(self._sandbox, outcome)
        return read_result(self.job.id, outcome, self._sandbox.fetch, self._calls.log, live)

    def _arrived(self, request: Request, payload: bytes) -> LiveEvent | Ended | None:
        """Reads an event as soon as it is there. Tool calls don't wait for whoever reads the events."""
        event = read_event(payload)
        if isinstance(event, Described):
            return None
        if isinstance(event, Hold):
            self._calls.hold(event.seconds)
            return None
        if isinstance(event, Decided):
            self._approvals.over(event.call)
            return None
        if isinstance(event, ToolCall):
            fields = {"type": "tool_result", "call": event.call}
            self._calls.begin(event, lambda answer: request.reply(fields, answer))
        elif isinstance(event, Approval):
            self._approvals.begin(event)
        elif isinstance(event, Audit):
            self._calls.log.see(event)
            return event if self._tells_audit else None
        elif isinstance(event, Ended):
            self._end_calls()
        if isinstance(event, Started | Ended):
            self._session_is_there()
        return event

    def _end_calls(self) -> None:
        self._calls.end()
        self._approvals.end()

    def _session_is_there(self) -> None:
        if self._begins is not None:
            self._begins.set()
            self._begins = None
            session = self.job.options.get("session", "")
            self._sandbox.beginning.pop(session, None)
            self._sandbox.begun.add(session)
