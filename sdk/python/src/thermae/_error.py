"""The base of all errors of this package."""

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from thermae._commands import ExecResult
    from thermae._results import BaseResult


class ThermaeError(Exception):
    """Something went wrong that is not the program's own doing.

    Each error code has a class of its own in `thermae.errors`. Codes never change their meaning. An error with a code
    that this release does not know is a plain `ThermaeError`.

    Attributes:
        code: The error's code, such as `session_lost`.
        message: What happened, for people and models.
        request_id: Id of the job, under which the logs of the fleet have more. Empty if no job is concerned.
        advice: What to do about it.
        safe_to_retry: Whether nothing of the job ran and the cause can pass. Submit the job again under a new id.
        result: The job's result, if the error is the outcome of a job.
        exec_result: The command's result, if the error is that of a command.
    """

    code: str = "unknown"
    advice: str = ""
    safe_to_retry: bool = False
    default_message: ClassVar[str] = ""
    exec_result: "ExecResult | None" = None

    def __init__(
        self,
        message: str = "",
        *,
        request_id: str = "",
        code: str | None = None,
        advice: str | None = None,
        safe_to_retry: bool | None = None,
        result: "BaseResult | None" = None,
    ) -> None:
        self.message = message or self.default_message or self.code
        self.request_id = request_id
        self.result = result
        if code is not None:
            self.code = code
        if advice:
            self.advice = advice
        if safe_to_retry is not None:
            self.safe_to_retry = safe_to_retry
        super().__init__(self.message)

    def __str__(self) -> str:
        parts = [f"{self.code}: {self.message}"]
        if self.request_id:
            parts.append(f"(job {self.request_id})")
        if self.advice:
            parts.append(f"\nadvice: {self.advice}")
        return " ".join(parts).replace(" \n", "\n")

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross processes (multiprocessing, task queues); the result stays behind.
        fields = {"code": self.code, "message": self.message, "request_id": self.request_id, "advice": self.advice}
        return (_restored, (type(self), {**fields, "safe_to_retry": self.safe_to_retry}))


def _restored(kind: type[ThermaeError], fields: dict[str, object]) -> ThermaeError:
    error = kind.__new__(kind)
    Exception.__init__(error, fields["message"])
    error.__dict__.update(fields, result=None)
    return error
