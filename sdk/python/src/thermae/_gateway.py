"""Which gateway a sandbox uses: its URL, and what is shown there."""

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from thermae.errors import BadUrl

if TYPE_CHECKING:
    from ssl import SSLContext

_SCHEMES = {"http": "ws", "https": "wss"}


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway.

    Attributes:
        url: Its URL, as its user wrote it.
        api_key: The key that is shown to it; may be empty.
        ssl_context: Settings for TLS; by default, those of Python.
    """

    url: str
    api_key: str = field(repr=False)
    ssl_context: "SSLContext | None" = None

    @property
    def address(self) -> str:
        """Where it takes connections of SDKs.

        Raises:
            BadUrl: The URL is malformed, or has parts that no gateway's URL has.
        """
        advice = "The URL of a gateway is https://HOST, or http://HOST:8420 on your own machine."
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise BadUrl(f"the URL of the gateway is malformed: {error}", advice=advice) from None
        if not host or any(one.isspace() for one in self.url):
            raise BadUrl("the URL of the gateway names no host", advice=advice)
        if parts.username is not None or parts.password is not None:
            raise BadUrl(
                "the URL of the gateway has a user or a password", advice="Pass the key in api_key= or THERMAE_API_KEY."
            )
        if parts.query or parts.fragment:
            raise BadUrl("the URL of the gateway has a query or a fragment", advice=advice)
        return f"{_SCHEMES[parts.scheme.lower()]}://{parts.netloc}{parts.path.rstrip('/')}/v1/connect"


def is_gateway(url: str) -> bool:
    """Whether a URL is that of a gateway."""
    return url.partition("://")[0].lower() in _SCHEMES and "://" in url


def gateway(url: str, tenant: str | None, api_key: str | None, ssl_context: "SSLContext | None") -> Gateway | None:
    """The gateway that a URL names; `None` if it names something else.

    Raises:
        ValueError: Options are given that only a gateway has, or that it has not; or the key can't be sent.
    """
    if not is_gateway(url):
        for name, value in (("api_key", api_key), ("ssl_context", ssl_context)):
            if value is not None:
                raise ValueError(f"{name}: only a gateway (https://…) has this option, and the URL is no gateway's")
        return None
    if tenant or os.environ.get("THERMAE_TENANT"):
        raise ValueError("tenant: a gateway knows the tenant by the key. Leave tenant= out, and unset THERMAE_TENANT")
    if ssl_context is not None and not url.lower().startswith("https:"):
        raise ValueError("ssl_context: only https:// uses TLS")
    key = os.environ.get("THERMAE_API_KEY", "") if api_key is None else api_key
    if not all("!" <= one <= "~" for one in key):
        raise ValueError("api_key: a key has visible ASCII characters alone; does it come with a line break or spaces?")
    return Gateway(url, key, ssl_context)
