"""The course of one job: from its submission, and submissions after an error, to its result."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any

from thermae._calls import ToolCalls
from thermae._connection import WINDOW, Request
from thermae._error import ThermaeError
from thermae._events import Ended, LiveEvent, Started, ToolCall, read_event
from thermae._jobs import Job
from thermae._results import AsyncResult, read_result
from thermae._retry import pause
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
        self._sandbox = sandbox
        self._kinds = set(kinds)
        self._retries = max_retries
        self._tools = job.tools(sandbox.tools)
        self._calls = ToolCalls(self._tools, sandbox.tool_loop)
        self._request: Request | None = None
        self._begins: asyncio.Event | None = None

    def cancel(self) -> bool:
        """Cancels the job, if it was submitted. Its events go on to its result."""
        if self._request is None:
            return False
        self._request.cancel()
        return True

    async def events(self) -> AsyncGenerator[LiveEvent | AsyncResult, None]:
        """The events of the job; its result is the last one."""
        self._sandbox.under_way[self.job.id] = self
        if (session := self.job.options.get("session")) and session not in self._sandbox.begun:
            # Commands in the session wait until it is there.
            self._begins = self._sandbox.beginning.setdefault(session, asyncio.Event())
            self._kinds = {*self._kinds, "lifecycle"}
        failures = 0
        try:
            while True:
                try:
                    async with contextlib.aclosing(self._attempt()) as events:
                        async for event in events:
                            yield event
                    return
                except Cancelled as error:
                    # The job was cancelled before the fleet had it, so it has no outcome of the fleet's.
                    self.result = self._read(
                        {"status": "cancelled", "error": {"code": error.code, "message": error.message}}
                    )
                    yield self.result
                    return
                except ThermaeError as error:
                    if failures >= self._retries or not self._sandbox.may_retry(error):
                        raise
                    _log.info("job submitted again job=%s code=%s failures=%d", self.job.id, error.code, failures + 1)
                await asyncio.sleep(pause(failures))
                failures += 1
        finally:
            self._calls.end()
            self._sandbox.under_way.pop(self.job.id, None)
            self._session_is_there()

    async def _attempt(self) -> AsyncGenerator[LiveEvent | AsyncResult, None]:
        connection = await self._sandbox.connection()
        payload = self.job.to_wire(self._tools, sorted(self._kinds), connection.protocol)
        allowed = self.job.deadline
        until = None if allowed is None else asyncio.get_running_loop().time() + allowed
        run = connection.request("run", {"window": WINDOW}, payload, job=self.job.id, on_arrival=self._arrived)
        async with run as self._request:
            async for event in self._request.answers(until):
                if isinstance(event, Ended):
                    # It can come twice, and is the same then.
                    self.result = self.result or self._read(event.outcome)
                elif event is not None:
                    yield event
        if self.result is None:
            raise ConnectionLost("the job ended without an outcome", request_id=self.job.id)
        _log.debug("job ended job=%s status=%s", self.job.id, self.result.status)
        yield self.result

    def _read(self, outcome: dict[str, Any]) -> AsyncResult:
        return read_result(self.job.id, outcome, self._sandbox.fetch)

    def _arrived(self, request: Request, payload: bytes) -> LiveEvent | Ended | None:
        """Reads an event as soon as it is there. Tool calls don't wait for whoever reads the events."""
        event = read_event(payload)
        if isinstance(event, ToolCall):
            fields = {"type": "tool_result", "call": event.call}
            self._calls.begin(event, lambda answer: request.reply(fields, answer))
        elif isinstance(event, Ended):
            self._calls.end()
        if isinstance(event, Started | Ended):
            self._session_is_there()
        return event

    def _session_is_there(self) -> None:
        if self._begins is not None:
            self._begins.set()
            self._begins = None
            session = self.job.options.get("session", "")
            self._sandbox.beginning.pop(session, None)
            self._sandbox.begun.add(session)
