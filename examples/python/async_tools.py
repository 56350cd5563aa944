"""Async tools on the caller's own event loop, called by three programs that run at once.

All three wait for one another in the tool `meet`, which works only if the programs and the calls really run at once.

It prints:

    ada met ada, bob, cleo
    bob met ada, bob, cleo
    cleo met ada, bob, cleo
"""

import asyncio

from thermae import AsyncSandbox, tool

GUESTS = ["ada", "bob", "cleo"]


async def main() -> None:
    """Runs one program for each guest."""
    here: set[str] = set()
    everybody = asyncio.Event()

    @tool
    async def meet(name: str) -> list[str]:
        """Waits until all guests are here. Returns their names."""
        here.add(name)
        if len(here) == len(GUESTS):
            everybody.set()
        await everybody.wait()
        return sorted(here)

    async with AsyncSandbox("embedded", tools=[meet], slots=len(GUESTS)) as box:
        programs = [f"print('{name} met', ', '.join(await meet(name='{name}')))" for name in GUESTS]
        for result in await asyncio.gather(*(box.run(program, check=True) for program in programs)):
            print(result.stdout, end="")


asyncio.run(main())
