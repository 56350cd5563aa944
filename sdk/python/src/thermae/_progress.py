"""What batches have in common: their jobs, their items, and how far they are."""

from collections import Counter
from collections.abc import Container, Sized
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from thermae._jobs import Job, JobOptions
from thermae._results import BaseResult

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
        statuses: How many ended with each status.
    """

    total: int | None
    done: int = 0
    statuses: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, jobs: object) -> "Progress":
        """The progress of a batch that has not begun."""
        return cls(len(jobs) if isinstance(jobs, Sized) else None)

    def count(self, result: BaseResult) -> None:
        """Counts a job that has ended."""
        self.done += 1
        self.statuses[result.status] += 1


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


def job_of(one: str | Job, options: JobOptions, under_way: Container[str]) -> Job:
    """The next job of a batch.

    Args:
        one: The program, or the job itself.
        options: The options of a program.
        under_way: Ids of the batch's jobs that have not ended.

    Raises:
        TypeError: It is neither, or an option is unknown.
        ValueError: A job with its id is under way.
    """
    job = one if isinstance(one, Job) else Job(one, **options)
    job.must_start = False  # The jobs of a batch wait for each other.
    if job.id in under_way:
        raise ValueError(f"two jobs of the batch have the id {job.id}: make a new Job for each run")
    return job
