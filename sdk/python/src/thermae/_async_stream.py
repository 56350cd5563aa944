"""The events of a job, on an event loop."""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from thermae._course import Course
from thermae._events import LiveEvent
from thermae._jobs import Job
from thermae._results import AsyncResult

if TYPE_CHECKING:
    from thermae._async_sandbox import AsyncSandbox


class AsyncStream:
    """The events of a job, as they come; its `AsyncResult` is the last one.

    The job begins with the first event that is taken. Leave the stream early (end its `async with` block, leave its
    `async for` loop, or `aclose` it), and the job is cancelled. The result of a job that did not succeed is no
    exception here.

    Attributes:
        job_id: Id of the job.
    """

    def __init__(self, sandbox: "AsyncSandbox", job: Job, kinds: Sequence[str], max_retries: int) -> None:
        self.job_id = job.id
        self._course = Course(sandbox, job, kinds, max_retries)
        self._events = self._course.events()

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

    @property
    def result(self) -> AsyncResult | None:
        """The result, once it has come."""
        return self._course.result

    @property
    def was_cancelled(self) -> bool:
        """Whether somebody has cancelled the job here."""
        return self._course.was_cancelled

    async def finish(self) -> AsyncResult:
        """Waits for the result, and drops all other events."""
        async with self:
            async for _ in self:
                pass
        return cast("AsyncResult", self.result)

    def run_here(self) -> AsyncResult | None:
        """See `Course.run_here`."""
        return self._course.run_here()

    async def aclose(self) -> None:
        """Leaves the stream. A job that has not ended is cancelled."""
        await self._events.aclose()

    def cancel(self) -> None:
        """Cancels the job. The stream goes on to its result."""
        self._course.cancel()
