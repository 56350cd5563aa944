"""Tests of the documentation: its snippets, its examples and its site, with the real `thermae`.

They need the program (`THERMAE_BIN`). Tests with the mark `fleet` also need a fleet, as the tenant that
`THERMAE_TEST_AMQP_TENANT` names; `-m "not fleet"` leaves them out.
"""

import os
from pathlib import Path

import pytest
from wheels import wheel

FLEET = os.environ.get("THERMAE_TEST_AMQP_TENANT", "")


@pytest.fixture(autouse=True)
def needs(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not os.environ.get("THERMAE_BIN"):
        pytest.fail("THERMAE_BIN must name the program `thermae`")
    if request.node.get_closest_marker("fleet") and not FLEET:
        pytest.fail("THERMAE_TEST_AMQP_TENANT must have the URL of a fleet's RabbitMQ, for a tenant")
    monkeypatch.chdir(tmp_path)
    # No snippet needs a network: pip finds stand-ins for the packages of the snippets here, and nothing else.
    packages = tmp_path_factory.mktemp("packages")
    wheel(packages / "links", "httpx", "0.28.1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(packages / "links"))
    monkeypatch.setenv("THERMAE_CACHE", str(packages / "cache"))


@pytest.fixture
def fleet() -> str:
    """URL of the fleet."""
    return FLEET
