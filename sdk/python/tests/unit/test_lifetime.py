"""The ends of a sandbox that nobody has planned: a loop that ends first, and a program that is no bridge."""

import asyncio
from pathlib import Path

import pytest
from helpers import finished, on_a_loop, program
from over_http import of_the_bridge, of_the_embedded_fleet

from thermae import AsyncSandbox, Sandbox
from thermae.errors import ConnectionLost, EmbeddedUnavailable, WrongLoopError


def test_the_end_of_its_loop_closes_a_sandbox() -> None:
    # The fixture `nothing_is_left_behind` sees a bridge that goes on.
    box = AsyncSandbox()

    async def once() -> str:
        return (await box.run("print a")).stdout

    assert asyncio.run(once()) == "a\n"
    with pytest.raises(WrongLoopError):
        asyncio.run(once())
    asyncio.run(box.close())


@of_the_embedded_fleet
@on_a_loop
async def test_a_program_that_cancels_all_tasks_hangs_nowhere() -> None:
    async with AsyncSandbox() as box:
        me = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not me:
                task.cancel()
        await asyncio.sleep(0)
        with pytest.raises(ConnectionLost, match="has ended"):
            async with asyncio.timeout(60):
                await box.run("print a")


def test_an_object_that_closes_or_uses_its_sandbox_at_exit_hangs_nowhere() -> None:
    status, out, err = finished(
        program("""
        from thermae import Sandbox

        class Agent:
            def __init__(self, end):
                self.box, self.end, self.me = Sandbox(), end, self
                self.box.run("print a")

            def __del__(self):
                try:
                    self.end(self.box)
                except Exception as error:
                    print(error.code)

        agents = [Agent(Sandbox.close), Agent(lambda box: box.run("print b"))]
        """)
    )
    assert (status, out.strip(), err) == (0, "sandbox_closed", "")


@of_the_bridge
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("exit 3", "ended before it opened a fleet"),
        ("echo the library libx.so is missing >&2; exit 127", "the library libx.so is missing"),
        ('echo this is no frame >&"$3"; exec cat >/dev/null', "ended before it opened a fleet"),
    ],
)
def test_a_program_that_is_no_bridge_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, why: str
) -> None:
    program = tmp_path / "other"
    program.write_text(f"#!/bin/bash\n{source}\n")
    program.chmod(0o755)
    monkeypatch.setenv("THERMAE_BIN", str(program))
    with pytest.raises(EmbeddedUnavailable, match=why) as caught:
        Sandbox().run("print a")
    assert str(program) in caught.value.message
