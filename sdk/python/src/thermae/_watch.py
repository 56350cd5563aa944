"""Which live events somebody wants, and who gets them."""

import inspect
from collections.abc import Callable
from typing import Any

from thermae._events import Audit, Display, LiveEvent, Stderr, Stdout, ToolCall
from thermae._jobs import RunOptions
from thermae._results import BaseResult

EVERYTHING = ("lifecycle", "output", "display")
"""All kinds of live events."""


class Watch:
    """The callbacks of a run."""

    def __init__(self, options: RunOptions) -> None:
        """Takes the callbacks out of the options."""
        self.check = options.pop("check", False)
        self._stdout = options.pop("on_stdout", None)
        self._stderr = options.pop("on_stderr", None)
        self._display = options.pop("on_display", None)
        self._tool_call = options.pop("on_tool_call", None)
        self._audit = options.pop("on_audit", None)
        for callback in (self._stdout, self._stderr, self._display, self._tool_call, self._audit):
            if callback is not None and not callable(callback):
                raise TypeError(f"a callback is a function, not {callback!r}")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of live events that the fleet has to send."""
        output = ("output",) if self._stdout or self._stderr else ()
        return (*output, *(("display",) if self._display else ()), *(("audit",) if self._audit else ()))

    @property
    def idle(self) -> bool:
        """Whether nobody watches."""
        return not (self.kinds or self._tool_call)

    def see(self, event: LiveEvent | BaseResult) -> Any:
        """Calls the callback for an event, and gives what it returned."""
        match event:
            case Stdout(text=text):
                return _call(self._stdout, text)
            case Stderr(text=text):
                return _call(self._stderr, text)
            case Display(data=data):
                return _call(self._display, data)
            case ToolCall():
                return _call(self._tool_call, event)
            case Audit():
                return _call(self._audit, event)
            case _:
                return None

    def see_sync(self, event: LiveEvent | BaseResult) -> None:
        """Calls the callback for an event.

        Raises:
            TypeError: It is async: nobody could await it.
        """
        if inspect.iscoroutine(done := self.see(event)):
            done.close()
            raise TypeError("a callback of Sandbox can't be async: AsyncSandbox awaits callbacks")

    async def see_async(self, event: LiveEvent | BaseResult) -> None:
        """Calls the callback for an event, and awaits it if it is async."""
        if inspect.isawaitable(done := self.see(event)):
            await done

    def checked(self, result: BaseResult) -> None:
        """Raises the error of a result that the caller must not overlook.

        Raises:
            ThermaeError: The job never ran or was lost, or it did not succeed and `check` is set.
        """
        if self.check or result.status in ("rejected", "lost"):
            result.raise_for_status()


def _call(callback: Callable[..., object] | None, value: Any) -> object:
    return callback(value) if callback is not None else None
