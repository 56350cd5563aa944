"""What batches have in common: their jobs, their items, and how far they are."""

import asyncio
import json
import os
import sys
import uuid
from collections import Counter
from collections.abc import Collection, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from thermae._jobs import Job, JobOptions
from thermae._request import json_payload
from thermae._results import AsyncResult, BaseResult
from thermae._retry import pause
from thermae.errors import AlreadySubmitted

if TYPE_CHECKING:
    from thermae._async_sandbox import AsyncSandbox

ENDING = 10
"""How often a batch looks whether a job that another one has left has ended."""

R = TypeVar("R", bound=BaseResult)


@dataclass(frozen=True, slots=True)
class BatchItem(Generic[R]):
    """One job of a batch, and how it ended.

    Attributes:
        index: Its place among the jobs of the batch, from 0.
        job: The job.
        result: Its result, whatever the status: in a batch, a job that never ran is a result, too.
    """

    index: int
    job: Job
    result: R


@dataclass(slots=True)
class Progress:
    """How far a batch is.

    Attributes:
        total: How many jobs it has; `None` if that is not known ahead.
        done: How many have ended.
        before: How many of these had a result in the file of results already.
        statuses: How many ended with each status.
    """

    total: int | None
    done: int = 0
    before: int = 0
    statuses: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, jobs: object) -> "Progress":
        """The progress of a batch that has not begun."""
        return cls(len(jobs) if isinstance(jobs, Sized) else None)

    def count(self, status: str) -> None:
        """Counts a job that has ended."""
        self.done += 1
        self.statuses[status] += 1


def check(jobs: object, concurrency: int) -> None:
    """Looks at the arguments of a batch.

    Raises:
        TypeError: The jobs are one text, whose letters are no programs.
        ValueError: No job could run.
    """
    if isinstance(jobs, str):
        raise TypeError("a batch takes a list of programs, not a single text")
    if concurrency < 1:
        raise ValueError("concurrency must be at least 1")


class Feed:
    """The jobs of a batch one by one, and the file of its results, if it has one.

    The file is that of `thermae batch`: each line is the id of a job and its outcome, written at once when the job has
    ended. So whatever ends the batch, the next one goes on with the file.

    A job that has a result in the file is left out. Each other job goes to the fleet under its own id, so what the
    fleet has run for a batch that was killed does not run again.
    """

    def __init__(self, options: JobOptions, results: "str | os.PathLike[str] | None", retry: Collection[str]) -> None:
        """Opens or creates the file, and cuts off a line whose write was interrupted.

        Raises:
            BlockingIOError: Another batch writes to the file.
            OSError: The file can't be used.
            ValueError: It is no file of results. It stays as it was.
        """
        self._options = options
        self._ids: set[str] = set()
        self._had: dict[str, str] = {}
        self._again: set[str] = set()
        self._file = None
        if results is not None:
            self._file = open(results, "a+b")  # noqa: SIM115
            try:
                self._read(os.fspath(results), retry)
            except BaseException:
                self._file.close()
                raise

    def _read(self, path: str, retry: Collection[str]) -> None:
        assert self._file is not None
        if sys.platform != "win32":  # Windows has no such lock.
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BlockingIOError(error.errno, "another batch is writing to this file", path) from None
        self._file.seek(0)
        whole = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            if line.isspace():
                continue
            try:
                one = json.loads(line)
                key, status = one["id"], one["status"]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}: line {number} is not a result ({error!r}): give another file") from None
            self._had[key] = status
        self._again = {key for key, status in self._had.items() if status in retry}
        self._file.truncate(whole)

    def next(self, one: str | Job, progress: Progress) -> Job | None:
        """The next job; `None` if it has a result already.

        Raises:
            TypeError: It is neither a program nor a job, or an option is unknown.
            ValueError: Another job of the batch has its id, or a job whose result is to be kept has none.
        """
        job = one if isinstance(one, Job) else Job(one, **self._options)
        job.must_start = False  # The jobs of a batch wait for each other.
        if self._file is not None and "job_id" not in job.options:
            raise ValueError('with results=, each job needs an id of its own: Job(code, job_id="...")')
        if job.id in self._ids:
            raise ValueError(f"two jobs of the batch have the id {job.id}: make a new Job for each run")
        self._ids.add(job.id)
        status = self._had.get(job.id)
        if status is None or job.id in self._again:
            return job
        progress.before += 1
        progress.count(status)
        return None

    async def run(self, sandbox: "AsyncSandbox", job: Job) -> AsyncResult:
        """Runs a job to its end.

        The fleet runs an id once. So a job whose result does not count, and one that a batch before has cancelled, runs
        under another id. The job has that id meanwhile.
        """
        own = job.id
        try:
            if own in self._again:
                job.id = uuid.uuid4().hex
            result, cancelled_here = await self._finished(sandbox, job)
            if self._file is not None and result.status == "cancelled" and not cancelled_here:
                job.id = uuid.uuid4().hex
                result, _ = await self._finished(sandbox, job)
            return result
        finally:
            job.id = own

    async def _finished(self, sandbox: "AsyncSandbox", job: Job) -> tuple[AsyncResult, bool]:
        """The result, and whether the job was cancelled here. One that a batch has just left must end first."""
        tries = 0
        while True:
            stream = sandbox.start(job, (), {})
            try:
                return await stream.finish(), stream.was_cancelled
            except AlreadySubmitted:
                if self._file is None or tries == ENDING:
                    raise
                await asyncio.sleep(pause(tries))
                tries += 1

    def keep(self, item: "BatchItem[Any]") -> None:
        """Writes the result of a job that has ended. One that was cancelled is to run again."""
        result: BaseResult = item.result
        if self._file is None:
            self._ids.discard(item.job.id)
        elif result.status != "cancelled":
            self._file.write(json_payload({"id": item.job.id, **result.raw}) + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
