"""Runs prints in turns, for `thermae-loadtests sdk`, which runs the same prints without this package in between.

Each line of standard input is a turn: `{"prints": N, "at_once": M}`. Each line of standard output says how it went:
`{"seconds": S, "each": [S, …]}`, with the time of each print if there is one at a time. The only argument says which
class runs them: `Sandbox` or `AsyncSandbox`.
"""

import asyncio
import json
import sys
import time
from typing import Any

from thermae import AsyncSandbox, Sandbox

CODE = "print(1+1)"


def check(stdout: str) -> None:
    """Ends the program if a print has failed."""
    if stdout != "2\n":
        raise SystemExit(f"a print gave {stdout!r}")


def tell(begun: float, each: list[float]) -> None:
    """Says how a turn went."""
    print(json.dumps({"seconds": time.perf_counter() - begun, "each": each}), flush=True)


def turn() -> tuple[int, int] | None:
    """The next turn: how many prints, and how many at once."""
    line = sys.stdin.readline()
    asked: dict[str, Any] = json.loads(line) if line else {}
    return (asked["prints"], asked["at_once"]) if asked else None


def plain() -> None:
    """Runs prints as programs without an event loop do."""
    with Sandbox() as box:
        while (asked := turn()) is not None:
            prints, at_once = asked
            each: list[float] = []
            begun = time.perf_counter()
            if at_once > 1:
                for done in box.batch([CODE] * prints, concurrency=at_once):
                    check(done.result.stdout)
            else:
                for _ in range(prints):
                    sent = time.perf_counter()
                    result = box.run(CODE)
                    each.append(time.perf_counter() - sent)
                    check(result.stdout)
            tell(begun, each)


async def on_a_loop() -> None:
    """Runs prints as programs with an event loop do."""
    async with AsyncSandbox() as box:
        while (asked := turn()) is not None:
            prints, at_once = asked
            each: list[float] = []
            begun = time.perf_counter()
            if at_once > 1:
                async for done in box.batch([CODE] * prints, concurrency=at_once):
                    check(done.result.stdout)
            else:
                for _ in range(prints):
                    sent = time.perf_counter()
                    result = await box.run(CODE)
                    each.append(time.perf_counter() - sent)
                    check(result.stdout)
            tell(begun, each)


if __name__ == "__main__":
    if sys.argv[1:] == ["AsyncSandbox"]:
        asyncio.run(on_a_loop())
    else:
        plain()
