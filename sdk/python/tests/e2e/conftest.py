"""Tests with the real `thermae`, which THERMAE_BIN must name, and its embedded fleet."""

import os
from collections.abc import Iterator

import pytest

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
    with Sandbox(tools=[get_sales, later], slots=4) as box:
        yield box
