"""Decides about calls that wait for approval, by the function that `approve=` names."""

import asyncio
import contextvars
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from thermae._calls import call_function
from thermae._capabilities import Capability
from thermae._error import ThermaeError
from thermae._events import Approval
from thermae._request import json_payload
from thermae.errors import BrokerDenied, ScopeMissing

if TYPE_CHECKING:
    from thermae._async_sandbox import AsyncSandbox

_log = logging.getLogger("thermae.approvals")

Verdict: TypeAlias = bool | int | str | None
"""What is decided of a call.

`True` approves it, and a number approves so many calls: this one, and the next ones that its capability takes. `False`
and `None` deny it, and so does a text, which is the reason that the program gets.
"""

Approve: TypeAlias = Callable[[Approval], Verdict | Awaitable[Verdict]]
"""Decides about a call that waits for approval."""

EVERY_CALL: tuple[Capability, ...] = ({"pattern": "**", "approval": {}},)
"""The capabilities of a sandbox that has a function to decide about calls, and names none."""

LONGEST_REASON = 500
"""Most characters of a reason that the fleet takes."""


class Approvals:
    """The calls of one run that wait for approval, in the context of whoever submitted the job.

    Without a function, they wait for somebody else, or are denied if there is nobody else.
    """

    def __init__(self, sandbox: "AsyncSandbox", may_not: Callable[[ThermaeError], None], *, others: bool) -> None:
        """Makes it.

        Args:
            sandbox: It has the function.
            may_not: Called with the error if the fleet takes no decision at all from here. The call would wait until
                its time is over, and the function would have been asked in vain.
            others: Whether somebody else may decide.
        """
        self._sandbox = sandbox
        self._may_not = may_not
        self._others = others
        self._context = contextvars.copy_context()
        self._running: dict[str, asyncio.Task[None]] = {}

    def begin(self, asked: Approval) -> None:
        """Starts to decide about a call. One that came before is not asked about again."""
        if asked.call not in self._running and not (self._sandbox.approve is None and self._others):
            self._running[asked.call] = asyncio.create_task(self._decide(asked))

    def over(self, call: str) -> None:
        """The call does not wait any more."""
        if (task := self._running.get(call)) is not None:
            task.cancel()

    def end(self) -> None:
        """The run has ended. A function in a thread runs to its end, and nobody waits for it."""
        for task in self._running.values():
            task.cancel()

    async def _decide(self, asked: Approval) -> None:
        try:
            await decide(self._sandbox, asked, verdict_to_wire(await self._ask(asked), asked.next))
        except (ScopeMissing, BrokerDenied) as error:
            self._may_not(error)
        except ThermaeError as error:
            _log.warning("decision refused tool=%s job=%s call=%s: %s", asked.tool, asked.job_id, asked.call, error)

    async def _ask(self, asked: Approval) -> Verdict:
        approve = self._sandbox.approve
        if approve is None:
            return "nobody is there who could approve it: the sandbox has no function for that (approve=)"
        try:
            verdict = await call_function(
                functools.partial(approve, asked),
                self._context.copy(),
                self._sandbox.tool_loop,
                is_async=inspect.iscoroutinefunction(approve),
                name="thermae-approve",
            )
            verdict_to_wire(verdict, asked.next)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0:
                raise
            _log.exception("approve= failed tool=%s job=%s call=%s", asked.tool, asked.job_id, asked.call)
            return "the function that decides about calls failed"
        decided: Verdict = verdict
        return decided


async def decide(sandbox: "AsyncSandbox", asked: Approval, verdict: dict[str, Any]) -> None:
    """Sends a decision. Returns when the worker has taken it.

    Raises:
        ApprovalDecided: The call was decided otherwise before.
        ApprovalOver: The call does not wait any more.
        ThermaeError: The decision did not reach the fleet, or the fleet does not take it from here.
    """
    connection = await sandbox.connection()
    fields = {"job": asked.job_id, "call": asked.call, **({"reply_to": asked.reply_to} if asked.reply_to else {})}
    async with connection.request("decide", fields, json_payload(verdict), job=asked.job_id) as request:
        async for _ in request.answers(asyncio.get_running_loop().time()):
            pass


def verdict_to_wire(verdict: object, most: int) -> dict[str, Any]:
    """The verdict as the wire has it. `most` is how many calls a yes can count for.

    Raises:
        TypeError: It is no verdict.
    """
    if verdict is True:
        return {"decision": "approve"}
    if verdict is False or verdict is None:
        return {"decision": "deny"}
    if isinstance(verdict, int) and verdict >= 1:
        return {"decision": "approve", "calls": min(verdict, most)}
    if isinstance(verdict, str):
        return {"decision": "deny", "reason": verdict.encode(errors="replace").decode()[:LONGEST_REASON]}
    raise TypeError(f"a verdict is True, False, a number of calls from 1 on, or a reason to deny, not {verdict!r}")
