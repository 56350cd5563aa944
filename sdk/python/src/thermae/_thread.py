"""Runs functions of others, which may block for ever."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")


async def in_thread(work: Callable[[], T], name: str) -> T:
    """Runs a function in a thread of its own, which never keeps the process or its event loop alive.

    An exception that is no `Exception`, and `StopIteration`, become a `RuntimeError`: a thread's `SystemExit` is no
    reason for this process to end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((result, error))

    def main() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # The loop may be closed by now.
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=main, daemon=True, name=name).start()
    result, error = await done
    if error is None:
        return cast("T", result)
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        raise error
    raise as_exception(error) from error


def as_exception(error: BaseException) -> RuntimeError:
    """An exception in place of one that would end a thread or an event loop."""
    text = str(error)
    return RuntimeError(f"{type(error).__name__}: {text}" if text else type(error).__name__)
