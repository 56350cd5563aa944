"""What batches have in common: their items, and how far they are."""

from collections import Counter
from collections.abc import Sized
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from thermae._jobs import Job
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
