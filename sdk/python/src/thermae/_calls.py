"""Answers the tool calls of one job."""

import asyncio
import contextlib
import contextvars
import functools
import inspect
import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from thermae._declared import DeclaredTool
from thermae._events import ToolCall
from thermae._json_forms import once, written
from thermae._made_calls import LONGEST, CallLog, CallState
from thermae._request import json_payload
from thermae._thread import as_exception, in_thread
from thermae._tools import Tool

_log = logging.getLogger("thermae.tools")


LARGEST_ANSWER = 16 << 20
"""Bytes of the largest answer that the fleet takes."""


class ToolCalls:
    """The tools of one job, in the context of whoever submitted the job.

    Async tools run on the event loop; all others run in threads of their own, which never keep the process alive. Each
    call gets a copy of the submitter's context variables.
    """

    def __init__(self, tools: Mapping[str, Tool[..., Any]], loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._tools = tools
        self._loop = loop
        self._context = contextvars.copy_context()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._kept_until = 0.0  # By the event loop's clock.
        self._held = asyncio.Event()
        self.log = CallLog()

    def begin(self, call: ToolCall, reply: Callable[[bytes], None]) -> None:
        """Starts to answer a call. `reply` gets the payload of the answer.

        A call that came before is not repeated. A call of a tool that no function here answers goes on to wait.
        """
        self.log.begin(call)
        tool = self._tools.get(call.tool)
        if tool is not None and not isinstance(tool, DeclaredTool) and call.call not in self._running:
            self._running[call.call] = asyncio.create_task(self._answer(tool, call, reply))

    def hold(self, seconds: float) -> None:
        """Keeps answers back for this time: the run does not read those that it has. 0: it has read them."""
        self._kept_until = asyncio.get_running_loop().time() + seconds
        self._held.set()

    def runs(self, call: str) -> bool:
        """Whether a function answers the call, or has done so."""
        return call in self._running

    def give_up(self, call: str) -> None:
        """Cancels a call that was answered otherwise."""
        if (task := self._running.get(call)) is not None:
            task.cancel()

    def end(self) -> None:
        """Cancels the calls that go on. A function in a thread runs to its end, and nobody waits for it."""
        for task in self._running.values():
            task.cancel()

    async def _answer(self, tool: Tool[..., Any], call: ToolCall, reply: Callable[[bytes], None]) -> None:
        clock = asyncio.timeout(call.within)
        # Kept back for longer, an answer could come too late.
        latest = asyncio.get_running_loop().time() + call.within / 2
        state: CallState = "refused"
        try:
            positional, named = tool.schema.bind(call.arguments)
            state = "answered"
            async with clock:
                result = await self._call(tool, functools.partial(tool.function, *positional, **named))
            answer = b'{"ok":' + tool.schema.write(result) + b"}"
            if len(answer) > LARGEST_ANSWER:
                raise ValueError(f"the result has {len(answer)} bytes, more than {LARGEST_ANSWER}")
            text = answer[6 : 6 + LONGEST * 4].decode(errors="replace").rstrip("}")
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            _log.warning("tool call failed tool=%s job=%s call=%s", call.tool, call.job_id, call.call, exc_info=True)
            answer = json.dumps({"error": _failure(error)}).encode()
            text = _text(error)
        if clock.expired():
            # The worker ends a late call by its own clock, with an error that is the same for every tool. An answer
            # beside that one would win by luck.
            self.log.end(call.call, "unknown", f"TimeoutError: the tool took longer than {call.within:g} s")
        else:
            self.log.end(call.call, state, text)
            await self._may_answer(latest)
            reply(answer)

    async def _may_answer(self, latest: float) -> None:
        """Waits while answers are kept back, at most until then."""
        now = asyncio.get_running_loop().time
        while (left := min(self._kept_until, latest) - now()) > 0:
            self._held.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._held.wait(), left)

    async def _call(self, tool: Tool[..., Any], work: Callable[[], Any]) -> Any:
        name = f"thermae-tool-{tool.name}"
        return await call_function(work, self._context.copy(), self._loop, is_async=tool.is_async, name=name)


async def call_function(
    work: Callable[[], Any],
    context: contextvars.Context,
    loop: asyncio.AbstractEventLoop | None,
    *,
    is_async: bool,
    name: str,
) -> Any:
    """Calls a function of the user's, in this context: an async one on `loop`, another one in a thread of this name."""

    async def called() -> Any:
        return await _await(work())

    async def awaited() -> Any:
        return await asyncio.get_running_loop().create_task(called(), context=context)

    if is_async:
        if loop is None or loop is asyncio.get_running_loop():
            return await awaited()
        if not loop.is_running():
            raise RuntimeError("the event loop that was passed as loop= does not run")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(awaited(), loop))
    result = await in_thread(lambda: context.run(_called, work), name)
    return await _await(result) if inspect.isawaitable(result) else result


def answer_of(value: Any, tool: Tool[..., Any] | None) -> bytes:
    """The payload of an answer that no function has given.

    Raises:
        TypeError: JSON can't express the value.
    """
    if tool is not None:
        return b'{"ok":' + tool.schema.write(value) + b"}"
    try:
        return written({"ok": value}, json_payload, "the answer")
    except (ValueError, RecursionError) as error:
        raise TypeError(f"the answer can't be written as JSON: {error}") from error


def failure_of(error: BaseException | str) -> bytes:
    """The payload of an answer that says why a tool failed."""
    return json.dumps({"error": error if isinstance(error, str) else _failure(error)}).encode()


def _is_cancelled() -> bool:
    """Whether somebody cancels this very task. A tool can also raise `CancelledError` by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _await(awaitable: Any) -> Any:
    """What a tool gives in the end. Only an `Exception` and a cancellation come out of it.

    `SystemExit` and `KeyboardInterrupt` would end the event loop, with every other run on it.
    """
    try:
        return await awaitable
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        # The main thread's loop is the caller's: Ctrl-C arrives there, in whatever it runs.
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        raise as_exception(error) from error


def _called(work: Callable[[], Any]) -> Any:
    """What a function returns. A generator runs to its end here, in the tool's own thread and context."""
    result = work()
    return list(cast("Iterable[Any]", result)) if inspect.isgenerator(result) else result


def _text(error: BaseException) -> str:
    """The error as the code gets it: no traceback of this machine."""
    message = _message(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _failure(error: BaseException) -> dict[str, Any]:
    """The error with its type, and with its attribute `data` if it has one that JSON can express."""
    failure: dict[str, Any] = {"type": type(error).__name__, "message": _message(error)}
    with contextlib.suppress(Exception):  # The attribute can be a property that raises.
        data = getattr(error, "data", None)
        if data is not None:
            failure |= json.loads(written({"data": data}, json_payload, "data"), object_pairs_hook=once)
    return failure


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(the error has no text)"
    return text.encode(errors="replace").decode()
