"""What every transport has to keep. Subclass `TransportContract` and say how a transport to the fake bridge begins."""

import asyncio
import contextlib
import os

import pytest
from helpers import on_a_loop

from thermae._frames import LARGEST_PAYLOAD, BadFrameError, Frame
from thermae._transport import Transport

HELLO = Frame({"type": "hello", "versions": [1], "sdk": "test"})


class Inbox:
    """What a transport brings."""

    def __init__(self, transport: Transport) -> None:
        self.ends = 0
        self._arrived: asyncio.Queue[Frame | Exception | None] = asyncio.Queue()
        transport.listen(self._arrived.put_nowait, self._ended)

    async def receive(self) -> Frame | None:
        """The next frame; `None` at the end. The error of the end is raised."""
        async with asyncio.timeout(60):
            arrived = await self._arrived.get()
        if isinstance(arrived, Exception):
            raise arrived
        return arrived

    def _ended(self, why: Exception | None) -> None:
        self.ends += 1
        self._arrived.put_nowait(why)


class TransportContract:
    async def transport(self) -> Transport:
        """A transport to a fake bridge, which has just begun."""
        raise NotImplementedError

    def bridge_dies(self, transport: Transport) -> None:
        """Kills the other end, as a crash would."""
        raise NotImplementedError

    @on_a_loop
    async def test_frames_go_both_ways(self) -> None:
        transport = await self.transport()
        inbox = Inbox(transport)
        await transport.send(HELLO)
        answer = await inbox.receive()
        assert answer is not None
        assert answer.header["type"] == "hello"
        await transport.close()

    @on_a_loop
    async def test_frames_of_many_tasks_are_never_mixed(self) -> None:
        transport = await self.transport()
        inbox = Inbox(transport)
        await transport.send(HELLO)
        await inbox.receive()

        async def ask(number: int) -> None:
            await transport.send(Frame({"type": f"what {number}", "id": number}, os.urandom(number * 1000)))

        asking = [asyncio.create_task(ask(number)) for number in range(200)]
        answers = [await inbox.receive() for _ in range(200)]
        await asyncio.gather(*asking)
        # The fake bridge says of every unknown request what its type was.
        assert {a.header["id"]: a.header["message"] for a in answers if a} == {n: f"what {n}" for n in range(200)}
        await transport.close()

    @on_a_loop
    async def test_frames_of_other_threads_are_not_mixed_with_them_either(self) -> None:
        transport = await self.transport()
        inbox = Inbox(transport)
        await transport.send(HELLO)
        await inbox.receive()

        def ask(first: int) -> set[int]:
            # A large frame does not fit into the socket's buffer: its rest is written by the event loop.
            sizes = ((number, 300_000 if number % 20 == 0 else number * 10) for number in range(first, first + 100))
            return {n for n, size in sizes if transport.try_send(Frame({"type": f"what {n}", "id": n}, bytes(size)))}

        async def ask_here(number: int) -> None:
            await transport.send(Frame({"type": f"what {number}", "id": number}, bytes(number * 100)))

        with pytest.raises(ValueError, match="more than"):
            transport.try_send(Frame({"type": "x"}, b"x" * (LARGEST_PAYLOAD + 1)))
        asking = [asyncio.create_task(asyncio.to_thread(ask, first)) for first in (1000, 2000, 3000)]
        asking_here = [asyncio.create_task(ask_here(number)) for number in range(200)]
        sent = set(range(200)).union(*await asyncio.gather(*asking))
        await asyncio.gather(*asking_here)
        answers = [await inbox.receive() for _ in sent]
        assert {a.header["id"]: a.header["message"] for a in answers if a} == {n: f"what {n}" for n in sent}
        await transport.close()
        assert not transport.try_send(HELLO)

    @on_a_loop
    async def test_a_frame_that_is_too_large_does_not_harm_the_next(self) -> None:
        transport = await self.transport()
        inbox = Inbox(transport)
        with pytest.raises(ValueError, match="more than"):
            await transport.send(Frame({"type": "x"}, b"x" * (LARGEST_PAYLOAD + 1)))
        await transport.send(HELLO)
        assert await inbox.receive() is not None
        await transport.close()

    @on_a_loop
    async def test_close_is_the_end_which_is_told_once_and_nothing_can_be_sent_after_it(self) -> None:
        transport = await self.transport()
        inbox = Inbox(transport)
        await transport.close()
        await transport.close()
        assert await inbox.receive() is None
        with pytest.raises(OSError, match="ended"):
            await transport.send(HELLO)
        assert inbox.ends == 1

    @on_a_loop
    async def test_the_death_of_the_other_end_is_the_end(self) -> None:
        transport = await self.transport()
        inbox = Inbox(transport)
        await transport.send(HELLO)
        assert await inbox.receive() is not None
        self.bridge_dies(transport)
        with contextlib.suppress(OSError):
            assert await inbox.receive() is None

        async def send_much() -> None:
            for _ in range(100):
                await transport.send(Frame({"type": "x"}, b"x" * 100_000))

        with pytest.raises(OSError, match=r"."):
            await send_much()
        await transport.close()

    @on_a_loop
    async def test_bytes_that_are_no_frame_are_told(self) -> None:
        transport = await self.transport()
        inbox = Inbox(transport)
        await transport.send(HELLO)
        await inbox.receive()
        await transport.send(Frame({"type": "run", "id": 1, "window": 1000}, b'{"id": "a", "code": "bad\\nhold"}'))
        with pytest.raises(BadFrameError):
            await inbox.receive()
        await transport.close()
        assert inbox.ends == 1
