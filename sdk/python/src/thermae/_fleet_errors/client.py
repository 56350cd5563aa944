"""Errors that the client is to blame for. Made by `scripts/generate_errors.py`."""

from thermae._error import ThermaeError


class UserIdMissing(ThermaeError):
    """The message names no sender: its AMQP property `user_id` is missing."""

    code = "user_id_missing"
    safe_to_retry = False
    advice = "Set the AMQP property user_id to the name of the RabbitMQ user that the client connects as."


class ForbiddenReplyKey(ThermaeError):
    """The reply key does not belong to the tenant that submitted the job."""

    code = "forbidden_reply_key"
    safe_to_retry = False
    advice = "Use a reply key that begins with your own tenant's name."


class Cancelled(ThermaeError):
    """The client cancelled the job."""

    code = "cancelled"
    safe_to_retry = False
    advice = "Nothing to do: the client asked for it."


class ApprovalTimedOut(ThermaeError):
    """Nobody approved the tool call in time, so it was not made."""

    code = "approval_timed_out"
    safe_to_retry = False
    advice = (
        "Have somebody approve such calls in time (thermae approvals), or give them more time: limits.tool_ms (--tool-"
        "wait), timeout_ms of the tool, and approval.timeout_ms of the capability."
    )


class ApprovalDecided(ThermaeError):
    """Another decision about the tool call came before."""

    code = "approval_decided"
    safe_to_retry = False
    advice = "Nothing to do: the first decision counts."


class ApprovalOver(ThermaeError):
    """The tool call does not wait for approval (any more)."""

    code = "approval_over"
    safe_to_retry = False
    advice = "Look which calls of the run wait for approval (thermae approvals list)."


class ToolTimeout(ThermaeError):
    """The client did not answer the tool call in time."""

    code = "tool_timeout"
    safe_to_retry = False
    advice = "Make the tool faster, or ask for a longer wait (limits.tool_ms, --tool-wait)."


class ToolAnswer(ThermaeError):
    """The client's answer to the tool call can't be read, is too large, or is not what the job's capabilities allow."""

    code = "tool_answer"
    safe_to_retry = False
    advice = "Write the tool's answer as JSON (without NaN or Infinity) with either ok or error, of at most 16 MiB."


class ClientGone(ThermaeError):
    """No queue is bound to the reply key any more."""

    code = "client_gone"
    safe_to_retry = False
    advice = "Keep the client connected while its jobs run."


class Superseded(ThermaeError):
    """Another client has taken the run over, and gets its calls, output and result. The run goes on."""

    code = "superseded"
    safe_to_retry = False
    advice = "Take the run over again if this client needs it. Only one client at a time follows a run."
