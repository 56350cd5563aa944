"""Many jobs at once, for programs without an event loop."""

import os
import queue
from collections.abc import Collection, Generator, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from thermae._jobs import Job, JobOptions
from thermae._loop import Runner
from thermae._progress import BatchItem, Feed, Progress, check
from thermae._results import AsyncResult, Result
from thermae.errors import ForkedClientError, SandboxClosed

if TYPE_CHECKING:
    from thermae._async_sandbox import AsyncSandbox

END = object()
"""What comes after the last job."""


class Batch:
    """The results of many jobs, in the order in which the jobs end. Leave it early, and what is under way is cancelled.

    Attributes:
        progress: How far it is.
    """

    def __init__(
        self,
        sandbox: "AsyncSandbox",
        runner: Runner,
        jobs: Iterable[str | Job],
        concurrency: int,
        options: JobOptions,
        results: "str | os.PathLike[str] | None",
        retry: Collection[str],
    ) -> None:
        check(jobs, concurrency)
        self._feed = Feed(options, results, retry)
        self.progress = Progress.of(jobs)
        self._sandbox = sandbox
        self._runner = runner
        self._concurrency = concurrency
        self._ended: queue.SimpleQueue[BatchItem[AsyncResult] | BaseException] = queue.SimpleQueue()
        self._items = self._generate(iter(jobs))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BatchItem[Result]:
        return next(self._items)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the batch, and cancels the jobs that are under way."""
        self._items.close()
        self._feed.close()

    def _generate(self, jobs: Iterator[str | Job]) -> Generator[BatchItem[Result], None, None]:
        # The jobs are taken in the caller's own thread: they may come from a generator with a state of its own.
        under_way: dict[int, Job] = {}
        index = 0
        try:
            while True:
                while len(under_way) < self._concurrency and (one := next(jobs, END)) is not END:
                    job = self._feed.next(cast("str | Job", one), self.progress)
                    if job is not None:
                        # Ctrl-C can come as soon as it has begun.
                        under_way[index] = job
                        if not self._runner.begin(self._run(index, job)):
                            raise ForkedClientError if self._runner.pid != os.getpid() else SandboxClosed
                    index += 1
                if not under_way:
                    return
                item = self._ended.get()
                if isinstance(item, BaseException):
                    raise item
                del under_way[item.index]
                self._feed.keep(item)
                self.progress.count(item.result.status)
                yield BatchItem(item.index, item.job, item.result.to_sync(self._runner))
        finally:
            for job in under_way.values():
                self._runner.begin(self._sandbox.cancel(job.id))
            while not self._ended.empty():  # They have ended, though nobody asks any more.
                if isinstance(item := self._ended.get(), BatchItem):
                    self._feed.keep(item)
            self._feed.close()

    async def _run(self, index: int, job: Job) -> None:
        try:
            self._ended.put(BatchItem(index, job, await self._feed.run(self._sandbox, job)))
        except BaseException as error:
            self._ended.put(error)
