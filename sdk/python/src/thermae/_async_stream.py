"""A job under way, on an event loop."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from thermae._calls import ToolCalls
from thermae._connection import WINDOW, Request
from thermae._error import ThermaeError
from thermae._events import Ended, LiveEvent, ToolCall, read_event
from thermae._jobs import Job
from thermae._results import AsyncResult, read_result
from thermae._retry import pause
from thermae.errors import ConnectionLost

if TYPE_CHECKING:
    from thermae._async_sandbox import AsyncSandbox

_log = logging.getLogger("thermae")


class AsyncStream:
    """The events of a job, as they come; its `AsyncResult` is the last one.

    The job begins with the first event that is taken. Leave the stream early (end its `async with` block, or `aclose`),
    and the job is cancelled. The result of a job that did not succeed is no exception here.

    Attributes:
        job_id: Id of the job.
        result: The result, once it has come.
    """

    def __init__(self, sandbox: "AsyncSandbox", job: Job, kinds: Sequence[str], max_retries: int) -> None:
        self.job_id = job.id
        self.result: AsyncResult | None = None
        self._sandbox = sandbox
        self._job = job
        self._kinds = kinds
        self._retries = max_retries
        self._tools = job.tools(sandbox.tools)
        self._calls = ToolCalls(self._tools, sandbox.tool_loop)
        self._request: Request | None = None
        self._events = self._generate()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LiveEvent | AsyncResult:
        return await anext(self._events)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leaves the stream. A job that has not ended is cancelled."""
        await self._events.aclose()

    def cancel(self) -> None:
        """Cancels the job. The stream goes on to its result."""
        if self._request is not None:
            self._request.cancel()

    async def _generate(self) -> AsyncGenerator[LiveEvent | AsyncResult, None]:
        self._sandbox.streams[self.job_id] = self
        failures = 0
        try:
            while True:
                try:
                    async for event in self._attempt():
                        yield event
                    return
                except ThermaeError as error:
                    if failures >= self._retries or not self._sandbox.may_retry(error):
                        raise
                    _log.info("job submitted again job=%s code=%s failures=%d", self.job_id, error.code, failures + 1)
                await asyncio.sleep(pause(failures))
                failures += 1
        finally:
            self._calls.end()
            self._sandbox.streams.pop(self.job_id, None)

    async def _attempt(self) -> AsyncGenerator[LiveEvent | AsyncResult, None]:
        connection = await self._sandbox.connection()
        payload = self._job.to_wire(self._tools, self._kinds)
        allowed = self._job.deadline
        until = None if allowed is None else asyncio.get_running_loop().time() + allowed
        run = connection.request("run", {"window": WINDOW}, payload, job=self.job_id, on_arrival=self._arrived)
        async with run as self._request:
            async for event in self._request.answers(until):
                if isinstance(event, Ended):
                    # It can come twice, and is the same then.
                    self.result = self.result or read_result(self.job_id, event.outcome, self._sandbox.fetch)
                elif event is not None:
                    yield event
        if self.result is None:
            raise ConnectionLost("the job ended without an outcome", request_id=self.job_id)
        _log.debug("job ended job=%s status=%s", self.job_id, self.result.status)
        yield self.result

    def _arrived(self, request: Request, payload: bytes) -> LiveEvent | Ended | None:
        """Reads an event as soon as it is there. Tool calls don't wait for whoever reads the stream."""
        event = read_event(payload)
        if isinstance(event, ToolCall):
            fields = {"type": "tool_result", "call": event.call}
            self._calls.begin(event, lambda answer: request.reply(fields, answer))
        elif isinstance(event, Ended):
            self._calls.end()
        return event
