"""What happens to open connections in a forked child: nothing of theirs is used, and their descriptors are closed."""

import os
import sys
import weakref

from thermae._transport import Transport

_open: "weakref.WeakSet[Transport]" = weakref.WeakSet()


def guard(transport: Transport) -> None:
    """Lets go of the transport in every child that is forked from now on."""
    _open.add(transport)


def release(transport: Transport) -> None:
    """The transport is closed: there is nothing left to let go of."""
    _open.discard(transport)


def _in_child() -> None:
    for transport in list(_open):
        transport.abandon()
    _open.clear()


if sys.platform != "win32":  # Windows knows no forks.
    os.register_at_fork(after_in_child=_in_child)
