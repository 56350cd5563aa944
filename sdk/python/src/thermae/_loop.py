"""The event loop of a synchronous sandbox: one thread that runs it."""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import os
import threading
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from thermae.errors import BlockedLoopError, ForkedClientError, SandboxClosed

T = TypeVar("T")

CANCEL_WITHIN = 2.0
"""Seconds that a cancelled run gets to tell the fleet so, after Ctrl-C."""


class Runner:
    """Runs coroutines on an event loop of its own, for callers that have none or whose own loop is busy.

    Attributes:
        loop: The event loop.
        pid: The process that it runs in.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.pid = os.getpid()
        # A daemon: a program that forgets to close its sandbox can still end.
        self._thread = threading.Thread(target=self._serve, daemon=True, name="thermae")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end, from any other thread. If the wait is interrupted, the coroutine is cancelled.

        Raises:
            ForkedClientError: This is a child of the process that made the loop.
            BlockedLoopError: The loop itself calls this, and would wait for ever.
            SandboxClosed: The loop has ended.
        """
        call = _Call(self.loop, work)
        try:
            if os.getpid() != self.pid:
                raise ForkedClientError
            if threading.current_thread() is self._thread:
                raise BlockedLoopError
            self.loop.call_soon_threadsafe(call.start)
        except BaseException as error:
            work.close()
            if isinstance(error, RuntimeError):
                raise SandboxClosed from error  # The loop is closed.
            raise
        try:
            return call.future.result()
        except concurrent.futures.CancelledError:
            raise SandboxClosed from None
        except BaseException:
            # Ctrl-C in this thread, or an error of the work itself, which has ended then.
            if not call.future.done():
                self.loop.call_soon_threadsafe(call.cancel)
                concurrent.futures.wait([call.future], CANCEL_WITHIN)
            raise

    def begin(self, work: Coroutine[Any, Any, object]) -> None:
        """Starts a coroutine that nobody waits for. If the loop has ended, it is dropped."""
        try:
            if os.getpid() != self.pid:
                raise ForkedClientError
            self.loop.call_soon_threadsafe(_Call(self.loop, work).start)
        except (RuntimeError, ForkedClientError):
            work.close()

    def stop(self) -> None:
        """Ends the loop and its thread."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()


class _Call(Generic[T]):
    """One coroutine, on its way from another thread to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self.future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._loop = loop
        self._work = work
        self._context = contextvars.copy_context()
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        self._task = self._loop.create_task(self._work, context=self._context)
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.future.cancel()
            self.future.set_running_or_notify_cancel()
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
