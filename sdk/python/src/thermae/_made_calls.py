"""Which tool calls a run has made, and what became of each."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from thermae._events import Audit, ToolCall

CallState: TypeAlias = Literal["answered", "refused", "unknown"]
"""What became of a call.

`answered`: by a value, or by an error of the tool. `refused`: the tool was not called. `unknown`: the run ended first,
or the tool took too long, so it may have done its work.
"""

LONGEST = 500
"""Characters of an answer that are kept."""

LEFT = frozenset(
    {"ok", "error", "tool_timeout", "tool_answer", "tool_answer_limit", "client_gone", "worker_lost", "internal"}
)
"""Ends of calls that have left the worker, in the audit log. All others are codes of refusals."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A tool call that a run has made.

    Attributes:
        tool: Name of the tool.
        arguments: The arguments as JSON values; `None` if they are not known here.
        state: What became of it; see `CallState`.
        answer: The beginning of the answer as JSON text, or why there is none.
    """

    tool: str
    arguments: dict[str, Any] | None
    state: CallState
    answer: str = ""


class CallLog:
    """The calls of one run that this process has seen, in order."""

    def __init__(self) -> None:
        self._calls: dict[str, MadeCall] = {}
        self._told: set[int] = set()
        self._refused_at_once = 0

    def __iter__(self) -> Iterator[MadeCall]:
        return iter(self._calls.values())

    def begin(self, call: ToolCall) -> None:
        """A call has come. Nobody knows what becomes of it until its end is told."""
        self._calls.setdefault(call.call, MadeCall(call.tool, call.arguments, "unknown"))

    def end(self, call: str, state: CallState, answer: str) -> None:
        """A call has ended."""
        if (made := self._calls.get(call)) is not None:
            self._calls[call] = dataclasses.replace(made, state=state, answer=answer[:LONGEST])

    def see(self, told: Audit) -> None:
        """Takes what the audit log says. Only refusals are news here: those calls never reach this process."""
        if told.what == "call":
            self._told.add(told.call)
        elif told.what == "end" and told.result is not None and told.result not in LEFT:
            why = told.result if told.why is None else f"{told.result}: {told.why}"
            self._refused_at_once += told.call not in self._told
            self._calls[f"audit {told.call}"] = MadeCall(told.tool or "?", told.arguments, "refused", why[:LONGEST])

    def not_seen(self, counted: int) -> int:
        """How many further calls there were, if the fleet has `counted` some.

        It does not count calls that it refuses at once: these have only an end in the audit log.
        """
        return max(counted - (len(self._calls) - self._refused_at_once), 0)
