"""Tests with the real `thermae`, which THERMAE_BIN must name, and its embedded fleet.

Tests with the mark `fleet` need a real one, as the tenant that THERMAE_TEST_AMQP_TENANT names. Those that make fleets
of their own are left out if the tests are to reach a fleet through a gateway.
"""

import os
from collections.abc import Iterator

import pytest
from fleets import FLEET, OVER_HTTP, PROMETHEUS, any_fleet

from thermae import Sandbox, tool

if not os.environ.get("THERMAE_BIN"):
    raise pytest.UsageError("set THERMAE_BIN to a build of `thermae` for these tests")


@tool
def get_sales(region: str, quarter: str = "Q4") -> list[dict[str, int]]:
    """Sales rows of one region and quarter."""
    return [{"amount": 120}, {"amount": len(region) + len(quarter)}]


@tool(max_calls=2)
async def later(n: int) -> int:
    return n + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if OVER_HTTP:
        left_out = [item for item in items if not reaches_a_fleet(item)]
        items[:] = [item for item in items if reaches_a_fleet(item)]
        config.hook.pytest_deselected(items=left_out)


def reaches_a_fleet(item: pytest.Item) -> bool:
    """Whether a test works on any fleet, and this one has all that it needs."""
    given = set(getattr(item, "fixturenames", ()))
    if item.get_closest_marker("prometheus"):
        return bool(PROMETHEUS)
    return item.get_closest_marker("fleet") is not None or not given.isdisjoint({"box", "waits"})


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with any_fleet([get_sales, later], 4) as box:
        yield box


@pytest.fixture
def fleet() -> str:
    """URL of the fleet."""
    if not FLEET:
        pytest.fail("THERMAE_TEST_AMQP_TENANT must have the URL of a fleet's RabbitMQ, for a tenant")
    return FLEET
