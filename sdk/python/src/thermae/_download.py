"""Fetches an artifact from the URL that the fleet gave for it."""

import asyncio
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator

from thermae._error import ThermaeError

PIECE = 256 << 10
WITHIN = 60.0
"""Seconds that a server may be silent."""


async def download(url: str) -> AsyncIterator[bytes]:
    """The content behind a URL, piece by piece.

    Raises:
        ThermaeError: The URL can't be fetched (`artifact_not_fetched`), for example because it has expired.
    """
    scheme, host = urllib.parse.urlsplit(url)[:2]
    if scheme not in ("http", "https"):
        raise ThermaeError(f"an artifact's URL begins with {scheme!r}", code="artifact_not_fetched")
    try:
        with await asyncio.to_thread(urllib.request.urlopen, url, timeout=WITHIN) as response:
            while piece := await asyncio.to_thread(response.read, PIECE):
                yield piece
    except urllib.error.HTTPError as error:
        with error:
            why = (await asyncio.to_thread(error.read, 1000)).decode(errors="replace")
        raise ThermaeError(f"{host} answered {error.code}: {why}", code="artifact_not_fetched") from None
    except OSError as error:
        raise ThermaeError(f"{host} can't be reached: {error}", code="artifact_not_fetched") from error
