"""Which tests run if they are to reach their fleet through a gateway. The marks are for those that don't."""

from collections import Counter, defaultdict

import pytest
from fleets import PROMETHEUS

of_the_bridge = pytest.mark.not_over_http("they look into the bridge: its process, its start, its log")
of_the_embedded_fleet = pytest.mark.not_over_http("they need the embedded fleet, its options, or a URL of RabbitMQ")
as_on_the_fleet = pytest.mark.not_over_http("the same tests run on the fleet")
needs_no_store = pytest.mark.not_over_http("they need a fleet without a store")

COUNTS = pytest.StashKey[dict[str, Counter[str]]]()
"""For each folder, how many of its tests run over HTTP (`run`), and how many don't, by reason."""


def why_not(item: pytest.Item) -> str:
    """Why a test does not run over HTTP; empty if it does."""
    if item.get_closest_marker("prometheus") and not PROMETHEUS:
        return "they ask the fleet's Prometheus"
    mark = item.get_closest_marker("not_over_http")
    return str(mark.args[0]) if mark else ""


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests that don't run, and counts."""
    reasons = {item: why_not(item) for item in items}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for item, why in reasons.items():
        counts[item.path.parent.name][why or "run"] += 1
    config.stash[COUNTS] = counts
    config.hook.pytest_deselected(items=[item for item, why in reasons.items() if why])
    items[:] = [item for item, why in reasons.items() if not why]


def told(config: pytest.Config) -> list[str]:
    """The counts, in lines."""
    lines = []
    for folder, counts in config.stash.get(COUNTS, {}).items():
        lines.append(f"over HTTP: {counts['run']} of {counts.total()} tests in {folder} run")
        reasons = [(why, count) for why, count in counts.most_common() if why != "run"]
        lines += [f"not over HTTP: {count} in {folder}: {why}" for why, count in reasons]
    return lines
