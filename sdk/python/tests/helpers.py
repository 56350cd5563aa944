"""Helpers of the tests."""

import asyncio
import contextlib
import functools
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, ParamSpec

from other_systems import OVER_HTTP

P = ParamSpec("P")

_SPEC = importlib.util.find_spec("thermae")
assert _SPEC is not None
assert _SPEC.origin is not None
SRC = str(Path(_SPEC.origin).parents[1])
"""Folder of the package that is tested. The package is not imported here: `other_systems` comes before it."""

TESTS = str(Path(__file__).parent)


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Makes an async test one that pytest can run."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs), debug=False)

    return run


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Waits for something that another process does and that no event tells."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        pause.wait(0.01)
    return found


async def soon(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """As `until`, on a loop."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def over_once(condition: Callable[[], Any]) -> AsyncIterator[None]:
    """As `asyncio.timeout`, but its time is over as soon as the condition holds."""
    async with asyncio.timeout(None) as limit:

        async def ends() -> None:
            await soon(condition)
            limit.reschedule(asyncio.get_running_loop().time())

        ending = asyncio.create_task(ends())
        try:
            yield
        finally:
            ending.cancel()


def program(source: str, *, forks: bool = False) -> "subprocess.Popen[str]":
    """Starts a program in a process of its own, with this package on its path.

    Over HTTP, the package finds nothing there that only POSIX has, unless the program `forks`.
    """
    imitate = "import other_systems\nother_systems.imitate()\n" if OVER_HTTP and not forks else ""
    # From Python 3.12 on, a fork warns if there are threads. What such a child may do is what some programs test.
    may_fork = "ignore:This process:DeprecationWarning"
    command = [sys.executable, "-X", "faulthandler", "-W", may_fork, "-c", imitate + textwrap.dedent(source)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=environment()
    )


def finished(process: "subprocess.Popen[str]", seconds: float = 60.0) -> tuple[int, str, str]:
    """The status and the outputs of a program that ends by itself."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end:\n{out}\n{err}") from None
    return process.returncode, out, err


def environment() -> dict[str, str]:
    """The environment of a program that imports this package."""
    return {**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{TESTS}"}


def children(pid: int) -> list[str]:
    """The names of a process's children."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", errors="replace") as file:
                    name, _, rest = file.read().rpartition(")")
            except OSError:
                continue
            if int(rest.split()[1]) == pid:
                found.append(name)
    return found


def descendants(pid: int) -> set[int]:
    """All processes below this one."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", errors="replace") as file:
                    parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def alive(pids: set[int]) -> set[int]:
    """Those of the processes that have not ended."""
    left = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] != "Z":
                    left.add(pid)
        except OSError:
            continue
    return left


def failure(stdout: str) -> str:
    """The error that the first line has, an answer of the fake bridge: its type and its message."""
    error = json.loads(stdout.splitlines()[0])["error"]
    return f"{error['type']}: {error['message']}" if error["message"] else str(error["type"])
