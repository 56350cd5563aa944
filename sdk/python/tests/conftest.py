"""What both kinds of tests share.

With `THERMAE_TEST_OVER=http`, tests reach their fleet through a gateway: the one that `THERMAE_TEST_GATEWAY` names,
with the key in `THERMAE_TEST_API_KEY`. Without these variables, one is started for them, in front of an embedded fleet.
The package then finds nothing that only POSIX has, and no program `thermae`.
"""

import os
import signal
from collections.abc import Iterator

import other_systems
import pytest
from helpers import children
from other_systems import OVER_HTTP
from served import KEY, Served

KEPT = {"THERMAE_API_KEY" if OVER_HTTP else "THERMAE_BIN"}

_gateways: list[Served] = []

# A shell starts what goes on in the background with SIGINT ignored, and the programs of tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

if OVER_HTTP:
    # Here, because other files of fixtures import the package, and look for the fleet.
    if "THERMAE_TEST_GATEWAY" not in os.environ:
        _gateways.append(Served())
    os.environ["THERMAE_TEST_URL"] = _gateways[0].url if _gateways else os.environ["THERMAE_TEST_GATEWAY"]
    os.environ["THERMAE_API_KEY"] = KEY if _gateways else os.environ["THERMAE_TEST_API_KEY"]
    other_systems.imitate()


def pytest_unconfigure() -> None:
    while _gateways:
        assert _gateways.pop().stop() == 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if OVER_HTTP:
        import over_http  # It looks for the fleet, too.

        over_http.choose(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if OVER_HTTP:
        import over_http

        for line in over_http.told(config):
            terminalreporter.write_line(line)


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
