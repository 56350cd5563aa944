"""What both kinds of tests share.

With `THERMAE_TEST_OVER=http`, tests reach their fleet through a gateway that is started for them: in front of the fleet
that `THERMAE_TEST_AMQP_TENANT` names, or else of an embedded one. The package then finds nothing that only POSIX has.
"""

import os
from collections.abc import Iterator

import other_systems
import pytest
from helpers import children
from served import KEY, Served

OVER_HTTP = os.environ.get("THERMAE_TEST_OVER") == "http"
KEPT = {"THERMAE_BIN", *(["THERMAE_API_KEY"] if OVER_HTTP else [])}

_gateways: list[Served] = []

if OVER_HTTP:
    # Here, because other files of fixtures import the package, and look for the fleet.
    _gateways.append(Served(os.environ.get("THERMAE_TEST_AMQP_TENANT", "")))
    os.environ["THERMAE_TEST_AMQP_TENANT"] = _gateways[0].url
    os.environ["THERMAE_API_KEY"] = KEY
    other_systems.imitate()


def pytest_unconfigure() -> None:
    while _gateways:
        assert _gateways.pop().stop() == 0


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("THERMAE_") and name not in KEPT:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Every test ends the processes that it starts."""
    before = children(os.getpid())
    yield
    left = [one for one in children(os.getpid()) if one not in before]
    assert not left, f"processes are left: {left}"
