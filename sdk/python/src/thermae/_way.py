"""The way from a sandbox to its fleet: a bridge of its own, or a gateway."""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from thermae import _fork
from thermae._binary import find_binary
from thermae._bridge import BridgeTransport
from thermae._connection import Connection
from thermae._gateway import gateway
from thermae._options import EmbeddedOptions, opening, redacted, url_of, wanted_packages, with_packages
from thermae._tools import Tool
from thermae._transport import Transport
from thermae.errors import ConnectionLost, EmbeddedUnavailable

if TYPE_CHECKING:
    from ssl import SSLContext


class Way:
    """The way to a fleet.

    Attributes:
        is_bridge: Whether the fleet is embedded in a bridge of the sandbox's own, and ends with its connection.
        is_embedded: Whether the fleet ends with the process at the other end: such a bridge, or a gateway.
    """

    def __init__(
        self,
        url: str | None,
        tenant: str | None,
        api_key: str | None,
        ssl_context: "SSLContext | None",
        embedded: EmbeddedOptions,
    ) -> None:
        url = url_of(url)
        opens = opening(url, tenant, embedded)
        self._gateway = gateway(url, tenant, api_key, ssl_context)
        # A gateway opens its own fleet.
        self._opening = {} if self._gateway else opens
        self._packages = wanted_packages(opens, embedded)
        self._name = redacted(url)
        self._was_open = False
        self.is_bridge = self.is_embedded = "embedded" in opens

    def __repr__(self) -> str:
        return self._name

    @property
    def packages(self) -> dict[str, str]:
        """The version of each package that was installed."""
        return self._packages.versions if self._packages else {}

    def close(self) -> None:
        """Lets go of the packages."""
        if self._packages is not None:
            self._packages.close()

    async def open(self, tools: Collection[Tool[..., Any]]) -> Connection:
        """Opens a connection to the fleet, for jobs with these tools.

        Raises:
            BadTool: A tool can't be called.
            ThermaeError: There is no fleet, or it can't be reached.
        """
        opening = self._opening
        if self._packages is not None:
            opening = with_packages(opening, await self._packages.ready())
        transport = await self._start()
        _fork.guard(transport)
        connection = Connection(transport)
        opened = asyncio.create_task(connection.open(opening))
        try:
            await asyncio.sleep(0)
            # While the other end opens the fleet, this process has time for its imports.
            for tool in tools:
                _ = tool.schema
            await opened
            await connection.check_tools(tools)
        except BaseException as error:
            opened.cancel()  # A tool can be to blame: nobody waits for the fleet then.
            await connection.close()
            _fork.release(transport)
            if isinstance(error, ConnectionLost) and self._gateway is None:
                words = transport.last_words().splitlines()
                why = f"; it said last: {words[-1]}" if words else ""
                raise EmbeddedUnavailable(f"{find_binary()} ended before it opened a fleet{why}") from None
            raise
        self.is_embedded = bool(connection.facts.get("embedded"))
        self._was_open = True
        return connection

    async def _start(self) -> Transport:
        if self._gateway is None:
            return await BridgeTransport.start()
        from thermae._gateway_transport import (
            GatewayTransport,
        )  # It imports much, and an embedded fleet needs none of it.

        return await GatewayTransport.start(self._gateway, again=self._was_open)
