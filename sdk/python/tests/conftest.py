"""What both kinds of tests share."""

import os
from collections.abc import Iterator

import pytest
from helpers import children


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("THERMAE_") and name != "THERMAE_BIN":
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Every test ends the processes that it starts."""
    before = children(os.getpid())
    yield
    left = [one for one in children(os.getpid()) if one not in before]
    assert not left, f"processes are left: {left}"
