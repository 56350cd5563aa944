"""A run that goes on without its client, for programs without an event loop."""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from thermae._approvals import Verdict
from thermae._async_run import AsyncRun
from thermae._events import Approval, LiveEvent, ToolCall
from thermae._loop import Runner
from thermae._results import AsyncResult, Result
from thermae._run_info import PendingCall, RunInfo

if TYPE_CHECKING:
    from thermae._sandbox import Sandbox


class Run:
    """A run that its client need not wait for.

    `Sandbox.submit` begins one, and `Sandbox.attach` takes one over. Nothing cancels it but `cancel`: it goes on when
    this object, or the whole process, is gone. (An embedded fleet itself ends with its sandbox.)

    While this object follows the run, calls of tools that have a function are answered by it, without anybody waiting.
    All other calls wait for `answer`, of this process or of another one.

    Attributes:
        id: Id of the run, which is that of its job. Any process of the tenant can attach to it.
    """

    def __init__(self, run: AsyncRun, runner: Runner) -> None:
        self.id = run.id
        self._run = run
        self._runner = runner

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    @staticmethod
    def attach(run_id: str, sandbox: "Sandbox", *, take_over: bool = True) -> "Run":
        """As `Sandbox.attach`."""
        return sandbox.attach(run_id, take_over=take_over)

    def info(self, *, stdout_from: int = 0, stderr_from: int = 0) -> RunInfo:
        """What the fleet knows of the run now. It changes nothing, whoever follows the run.

        Args:
            stdout_from: How many bytes of standard output to leave out: `info.stdout.end` of an earlier answer.
            stderr_from: How many bytes of standard error to leave out.

        Raises:
            NoAnswer: The fleet did not answer in time.
        """
        return self._runner.run(self._run.info(stdout_from=stdout_from, stderr_from=stderr_from))

    def pending(self) -> list[PendingCall]:
        """The tool calls that wait for `answer`, the oldest first.

        Those that a function of this object's tools is about to answer are not among them.
        """
        return self._runner.run(self._run.pending())

    def answer(
        self, call: PendingCall | ToolCall | str, value: Any = None, *, error: BaseException | str | None = None
    ) -> None:
        """Answers a tool call. Returns when the fleet has the answer.

        The first answer of a call counts, whoever gives it. Another one changes nothing.

        Args:
            call: The call, or its id.
            value: What the code gets: anything that JSON can express, or what the tool's return hint allows.
            error: Why the tool failed: the code gets a `ToolError` with this text, or with this exception's type and
                text.

        Raises:
            UnknownCall: No such call of this run waits, as far as the fleet can tell.
            TypeError: JSON can't express the value.
            ValueError: The answer is too large.
        """
        self._runner.run(self._run.answer(call, value, error=error))

    def decide(self, asked: Approval, verdict: Verdict) -> None:
        """Decides about a call that waits for approval. Returns when the fleet has taken the decision.

        The first decision about a call counts, whoever makes it. The same one again changes nothing.

        Args:
            asked: The call: of `info`, or of `events`.
            verdict: See `Verdict`.

        Raises:
            ApprovalDecided: The call was decided otherwise before.
            ApprovalOver: No such call of this run waits for approval.
            ScopeMissing: The API key may not approve.
            TypeError: It is no verdict.
        """
        self._runner.run(self._run.decide(asked, verdict))

    def result(self, timeout: float | None = None) -> Result:
        """Waits for the result. The run goes on if the wait ends early.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            The result, also if the program raised or reached a limit.

        Raises:
            TimeoutError: It did not come in time.
            Superseded: Another process, or another object of this one, has taken the run over.
            RunDetached: This object does not follow the run.
            ConnectionLost: The connection to the fleet ended. The run goes on; attach to it again.
            ThermaeError: The job never ran (its code is such as `limit_too_high`), or was lost.
        """
        return self._runner.run(self._run.result(timeout)).to_sync(self._runner)

    def events(self) -> Generator[LiveEvent | Result, None, None]:
        """The events of the run, as they come; its result is the last one. Leave early, and nothing happens to the run.

        Calls that wait already come first. What the code wrote before this object followed the run is in `info`. Of
        what came since then and nobody has taken, the last mebibyte is kept.

        Raises:
            Superseded: Another process, or another object of this one, has taken the run over.
            RunDetached: This object does not follow the run.
        """
        events = self._run.events()
        try:
            while (event := self._runner.run(anext(events, None))) is not None:
                yield event.to_sync(self._runner) if isinstance(event, AsyncResult) else event
        finally:
            self._runner.begin(events.aclose())

    def cancel(self) -> None:
        """Cancels the run, whoever follows it. It ends as `cancelled`, unless it ended before."""
        self._runner.run(self._run.cancel())

    def detach(self) -> None:
        """Stops following the run, which goes on. Its calls wait for whoever attaches to it."""
        self._runner.run(self._run.detach())
