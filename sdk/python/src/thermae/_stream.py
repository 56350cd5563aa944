"""A job under way, for programs without an event loop."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from thermae._async_stream import AsyncStream
from thermae._events import LiveEvent
from thermae._loop import Runner
from thermae._results import AsyncResult, Result


class Stream:
    """The events of a job, as they come; its `Result` is the last one.

    The job begins with the first event that is taken. Leave the stream early (end its `with` block, or `close`), and
    the job is cancelled. The result of a job that did not succeed is no exception here.

    Attributes:
        job_id: Id of the job.
        result: The result, once it has come.
    """

    def __init__(self, stream: AsyncStream, runner: Runner) -> None:
        self.job_id = stream.job_id
        self.result: Result | None = None
        self._stream = stream
        self._runner = runner

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LiveEvent | Result:
        event = self._runner.run(_next(self._stream))
        if event is None:
            raise StopIteration
        if isinstance(event, AsyncResult):
            self.result = event.to_sync(self._runner)
            return self.result
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A `for` loop that was left early has nobody else to cancel its job.
        self._runner.begin(_leave(self._stream))

    def close(self) -> None:
        """Leaves the stream. A job that has not ended is cancelled."""
        self._runner.run(_leave(self._stream))

    def cancel(self) -> None:
        """Cancels the job. The stream goes on to its result."""
        self._runner.run(_cancel(self._stream))


async def _next(stream: AsyncStream) -> LiveEvent | AsyncResult | None:
    return await anext(stream, None)


async def _cancel(stream: AsyncStream) -> None:
    stream.cancel()


async def _leave(stream: AsyncStream) -> None:
    # It is running if another thread takes an event just now.
    with contextlib.suppress(RuntimeError, asyncio.CancelledError):
        await stream.aclose()
