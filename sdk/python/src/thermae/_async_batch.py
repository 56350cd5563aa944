"""Many jobs at once, on an event loop."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Collection, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from thermae._jobs import Job, JobOptions
from thermae._progress import BatchItem, Feed, Progress, check
from thermae._results import AsyncResult

if TYPE_CHECKING:
    from thermae._async_sandbox import AsyncSandbox


class AsyncBatch:
    """The results of many jobs, in the order in which the jobs end. Leave it early, and what is under way is cancelled.

    Attributes:
        progress: How far it is.
    """

    def __init__(
        self,
        sandbox: "AsyncSandbox",
        jobs: Iterable[str | Job] | AsyncIterable[str | Job],
        concurrency: int,
        options: JobOptions,
        results: "str | os.PathLike[str] | None",
        retry: Collection[str],
    ) -> None:
        check(jobs, concurrency)
        self._feed = Feed(options, results, retry)
        self.progress = Progress.of(jobs)
        self._sandbox = sandbox
        self._jobs = jobs
        self._room = asyncio.Semaphore(concurrency)
        self._ended: asyncio.Queue[BatchItem[AsyncResult] | BaseException | None] = asyncio.Queue()
        self._items = self._generate()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BatchItem[AsyncResult]:
        return await anext(self._items)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the batch, and cancels the jobs that are under way."""
        await self._items.aclose()
        self._feed.close()

    async def _generate(self) -> AsyncGenerator[BatchItem[AsyncResult], None]:
        feeder = asyncio.create_task(self._run_all())
        try:
            while (item := await self._ended.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                self._feed.keep(item)
                self.progress.count(item.result.status)
                self._room.release()
                yield item
        finally:
            feeder.cancel()
            await asyncio.wait({feeder})
            while not self._ended.empty():  # They have ended, though nobody asks any more.
                if isinstance(item := self._ended.get_nowait(), BatchItem):
                    self._feed.keep(item)
            self._feed.close()

    async def _run_all(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                index = 0
                async for one in _each(self._jobs):
                    await self._room.acquire()
                    job = self._feed.next(one, self.progress)
                    if job is None:
                        self._room.release()
                    else:
                        group.create_task(self._run(index, job))
                    index += 1
        except BaseExceptionGroup as errors:
            # The caller's own jobs raised, or one of them is no job.
            self._ended.put_nowait(errors.exceptions[0])
        except BaseException as error:
            # Whatever ends this, nobody waits for ever.
            self._ended.put_nowait(error)
        else:
            self._ended.put_nowait(None)

    async def _run(self, index: int, job: Job) -> None:
        try:
            self._ended.put_nowait(BatchItem(index, job, await self._feed.run(self._sandbox, job)))
        except Exception as error:
            self._ended.put_nowait(error)


async def _each(jobs: Iterable[str | Job] | AsyncIterable[str | Job]) -> AsyncIterator[str | Job]:
    if isinstance(jobs, AsyncIterable):
        async for job in jobs:
            yield job
    else:
        for job in jobs:
            yield job
