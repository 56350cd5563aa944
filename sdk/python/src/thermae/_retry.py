"""When a job is submitted once more, under the same id."""

import random

from thermae._error import ThermaeError

MAX_RETRIES = 2
"""How often a job is submitted again, unless it says otherwise."""

TRANSIENT = frozenset(
    {
        "unavailable",
        "broker_unreachable",
        "gateway_unreachable",
        "gateway_full",
        "draining",
        "queue_full",
        "fleet_failed",
        "no_scheduler",
        "connection_lost",
    }
)
"""Codes of errors that can pass, before or instead of an outcome. An outcome is never one of them: it is recorded under
the job's id, so the id would only give it again."""

LOST = frozenset({"connection_lost", "draining"})
"""Those of them after which an embedded fleet is gone, with all that it knew."""


def is_transient(error: ThermaeError) -> bool:
    """Whether the same job, under the same id, may fare better in a moment."""
    return error.code in TRANSIENT and error.result is None


def pause(attempt: int) -> float:
    """Seconds before a repetition: they double from 0.25 to 8, and half of each is random."""
    longest = min(8.0, 0.25 * 2.0**attempt)
    return longest / 2 + random.uniform(0, longest / 2)
