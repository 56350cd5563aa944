"""What every transport has to keep. Subclass `TransportContract` and say how a transport to the fake bridge begins."""

import asyncio
import contextlib
import os

import pytest
from helpers import on_a_loop

from thermae._frames import LARGEST_PAYLOAD, BadFrameError, Frame
from thermae._transport import Transport

HELLO = Frame({"type": "hello", "versions": [1], "sdk": "test"})


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
        await transport.send(HELLO)
        answer = await transport.receive()
        assert answer is not None
        assert answer.header["type"] == "hello"
        await transport.close()

    @on_a_loop
    async def test_frames_of_many_tasks_are_never_mixed(self) -> None:
        transport = await self.transport()
        await transport.send(HELLO)
        await transport.receive()

        async def ask(number: int) -> None:
            await transport.send(Frame({"type": f"what {number}", "id": number}, os.urandom(number * 1000)))

        asking = [asyncio.create_task(ask(number)) for number in range(200)]
        answers = [await transport.receive() for _ in range(200)]
        await asyncio.gather(*asking)
        # The fake bridge says of every unknown request what its type was.
        assert {a.header["id"]: a.header["message"] for a in answers if a} == {n: f"what {n}" for n in range(200)}
        await transport.close()

    @on_a_loop
    async def test_a_frame_that_is_too_large_does_not_harm_the_next(self) -> None:
        transport = await self.transport()
        with pytest.raises(ValueError, match="more than"):
            await transport.send(Frame({"type": "x"}, b"x" * (LARGEST_PAYLOAD + 1)))
        await transport.send(HELLO)
        assert await transport.receive() is not None
        await transport.close()

    @on_a_loop
    async def test_after_close_there_is_nothing_to_receive_and_no_way_to_send(self) -> None:
        transport = await self.transport()
        receiving = asyncio.create_task(transport.receive())
        await asyncio.sleep(0)
        await transport.close()
        await transport.close()
        assert await receiving is None
        assert await transport.receive() is None
        with pytest.raises(OSError, match="ended"):
            await transport.send(HELLO)

    @on_a_loop
    async def test_the_death_of_the_other_end_is_the_end(self) -> None:
        transport = await self.transport()
        await transport.send(HELLO)
        assert await transport.receive() is not None
        self.bridge_dies(transport)
        with contextlib.suppress(OSError):
            assert await transport.receive() is None

        async def send_much() -> None:
            for _ in range(100):
                await transport.send(Frame({"type": "x"}, b"x" * 100_000))

        with pytest.raises(OSError, match=r"."):
            await send_much()
        await transport.close()

    @on_a_loop
    async def test_bytes_that_are_no_frame_are_told(self) -> None:
        transport = await self.transport()
        await transport.send(HELLO)
        await transport.receive()
        await transport.send(Frame({"type": "run", "id": 1, "window": 1000}, b'{"id": "a", "code": "bad\\nhold"}'))
        with pytest.raises(BadFrameError):
            await transport.receive()
        await transport.close()
