import asyncio
import os
import socket

import pytest
from helpers import children, on_a_loop
from over_http import of_the_bridge
from transport_contract import HELLO, Inbox, TransportContract

from thermae._bridge import BridgeTransport
from thermae._transport import Transport
from thermae.errors import EmbeddedUnavailable

pytestmark = of_the_bridge


class TestBridgeTransport(TransportContract):
    async def transport(self) -> Transport:
        return await BridgeTransport.start()

    def bridge_dies(self, transport: Transport) -> None:
        assert isinstance(transport, BridgeTransport)
        transport._process.kill()
        transport._process.wait()


@on_a_loop
async def test_close_ends_the_process() -> None:
    transport = await BridgeTransport.start()
    assert children(os.getpid())
    await transport.close()
    assert not children(os.getpid())


@on_a_loop
async def test_an_end_before_anybody_listens_is_told() -> None:
    transport = await BridgeTransport.start()
    transport._process.kill()
    await transport._frames.lost
    inbox = Inbox(transport)
    assert await inbox.receive() is None
    await transport.close()
    assert inbox.ends == 1


@on_a_loop
async def test_a_bridge_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thermae._bridge.END_WITHIN", 0.1)
    transport = await BridgeTransport.start()
    inbox = Inbox(transport)
    await transport.send(HELLO)
    await inbox.receive()
    os.kill(transport._process.pid, 19)
    await transport.close()
    assert transport._process.returncode == -9


@on_a_loop
async def test_a_program_that_cant_be_started_says_so_and_leaks_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: str
) -> None:
    nothing = os.path.join(tmp_path, "nothing")
    monkeypatch.setenv("THERMAE_BIN", nothing)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(EmbeddedUnavailable, match="not a program"):
        await BridgeTransport.start()
    with open(nothing, "w") as file:
        file.write("#!/does/not/exist\n")
    os.chmod(nothing, 0o755)
    with pytest.raises(EmbeddedUnavailable, match="can't be started"):
        await BridgeTransport.start()
    assert len(os.listdir("/proc/self/fd")) == len(before)


@on_a_loop
async def test_other_children_inherit_nothing() -> None:
    transport = await BridgeTransport.start()
    child = await asyncio.create_subprocess_exec("ls", "-l", "/proc/self/fd", stdout=-1, close_fds=False)
    out, _ = await child.communicate()
    assert b"socket" not in out
    assert isinstance(transport._socket, socket.socket)
    await transport.close()
