"""Tests with the real `thermae`, which THERMAE_BIN must name, and its embedded fleet.

Tests with the mark `fleet` need a real one, as the tenant that THERMAE_TEST_AMQP_TENANT names. If the tests are to
reach a fleet through a gateway, all of them run, except those whose mark `not_over_http` says why they don't.
"""

import os
from collections.abc import Iterator

import pytest
from fleets import FLEET, any_fleet

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


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(tools=[get_sales, later], **any_fleet(4)) as box:
        yield box


@pytest.fixture
def fleet() -> str:
    """URL of the fleet."""
    if not FLEET:
        pytest.fail("THERMAE_TEST_AMQP_TENANT must have the URL of a fleet's RabbitMQ, for a tenant")
    return FLEET
