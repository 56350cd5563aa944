"""The event loop of a synchronous sandbox: one thread that runs it."""

import asyncio
import contextlib
import contextvars
import os
import sys
import threading
from collections.abc import Coroutine
from typing import Any, Generic, Self, TypeVar

from thermae.errors import BlockedLoopError, ForkedClientError, SandboxClosed

T = TypeVar("T")

CANCEL_WITHIN = 2.0
"""Seconds that a cancelled run gets to tell the fleet so, after Ctrl-C."""

LOOK_UP_EVERY = 0.1
"""Seconds between two looks at Ctrl-C on Windows, where it does not wake a thread that waits for a lock."""


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

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end, from any other thread. If the wait is interrupted, the coroutine is cancelled.

        Raises:
            ForkedClientError: This is a child of the process that made the loop.
            BlockedLoopError: The loop itself calls this, and would wait for ever.
            SandboxClosed: The loop has ended, or the interpreter ends.
        """
        call = _Call(self.loop, work)
        try:
            if os.getpid() != self.pid:
                raise ForkedClientError
            if self.is_here():
                raise BlockedLoopError
            if sys.is_finalizing():
                raise SandboxClosed("the interpreter ends, and its threads have stopped")
        except BaseException:
            work.close()
            raise
        try:
            try:
                self.loop.call_soon_threadsafe(call.start)
            except RuntimeError as error:  # The loop is closed.
                call.drop()
                raise SandboxClosed from error
            call.wait()
        except BaseException:  # Ctrl-C in this thread, perhaps before the loop has the coroutine.
            with contextlib.suppress(RuntimeError):  # The loop may be closed by now.
                self.loop.call_soon_threadsafe(call.cancel)
            call.wait(CANCEL_WITHIN)
            raise
        return call.result()

    def is_here(self) -> bool:
        """Whether the caller is in the loop's own thread."""
        return threading.current_thread() is self._thread

    def begin(self, work: Coroutine[Any, Any, object]) -> bool:
        """Starts a coroutine that nobody waits for.

        Returns:
            Whether it was started. If the loop has ended, or is that of the parent process, it is dropped.
        """
        try:
            if os.getpid() != self.pid:
                raise ForkedClientError
            self.loop.call_soon_threadsafe(_Call(self.loop, work).start)
        except (RuntimeError, ForkedClientError):
            work.close()
            return False
        return True

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
        self._loop = loop
        self._work = work
        self._context = contextvars.copy_context()
        self._task: asyncio.Task[None] | None = None
        self._result: tuple[T] | None = None
        self._error: BaseException | None = None
        self._ended = False
        # Held until the coroutine has ended. A thread that waits for a bare lock is woken with the least effort.
        self._running = threading.Lock()
        self._running.acquire()

    def start(self) -> None:
        if self._ended:
            return
        self._task = self._loop.create_task(self._main(), context=self._context)
        # A task that is cancelled before it begins never gets to its own end.
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            self.drop()

    def drop(self) -> None:
        """Ends a coroutine that has not begun, and never will."""
        self._end()

    def wait(self, within: float = -1) -> None:
        """Waits for the end, from another thread."""
        if self._ended:
            return
        if sys.platform == "win32" and within < 0:
            while not self._running.acquire(timeout=LOOK_UP_EVERY):
                pass
        else:
            self._running.acquire(timeout=within)

    def result(self) -> T:
        """What the coroutine has returned, once it has ended."""
        if self._result is not None:
            return self._result[0]
        error, self._error = self._error, None
        if error is None or isinstance(error, asyncio.CancelledError):
            raise SandboxClosed
        try:
            raise error
        finally:
            del error  # Its traceback refers to this frame.

    async def _main(self) -> None:
        try:
            self._result = (await self._work,)
        except BaseException as error:
            self._error = error
        self._end()

    def _end(self, _: object = None) -> None:
        if not self._ended:
            self._ended = True
            self._work.close()
            self._running.release()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
