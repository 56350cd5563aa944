"""Errors that the code is to blame for. Made by `scripts/generate_errors.py`."""

from thermae._error import ThermaeError


class CodeRaised(ThermaeError):
    """The code raised an exception."""

    code = "code_raised"
    safe_to_retry = False
    advice = "Read the traceback and change the code."


class CodeExited(ThermaeError):
    """The code exited with a status other than zero."""

    code = "code_exited"
    safe_to_retry = False
    advice = "The exit status is the code's own. Read what the code printed."


class CodeKilled(ThermaeError):
    """A signal ended the code."""

    code = "code_killed"
    safe_to_retry = False
    advice = "Look for a crash in native code, or for a signal that the code sent to itself."


class WallTimeout(ThermaeError):
    """The wall-clock limit was reached."""

    code = "wall_timeout"
    safe_to_retry = False
    advice = "Make the code faster, or ask for a longer limit (limits.wall_ms, --wall)."


class CpuTimeout(ThermaeError):
    """The CPU-time limit was reached."""

    code = "cpu_timeout"
    safe_to_retry = False
    advice = "Make the code do less, or ask for a higher limit (limits.cpu_ms, --cpu)."


class OutOfMemory(ThermaeError):
    """The memory limit was reached."""

    code = "out_of_memory"
    safe_to_retry = False
    advice = "Make the code use less memory, or ask for a higher limit (limits.memory_bytes, --memory)."


class OutputLimit(ThermaeError):
    """The code wrote more output than allowed."""

    code = "output_limit"
    safe_to_retry = False
    advice = "Print less, or ask for a higher limit (limits.output_bytes, --output)."


class UnknownTool(ThermaeError):
    """The job declares no tool with this name."""

    code = "unknown_tool"
    safe_to_retry = False
    advice = "Add the tool to the job's tools."


class CapabilityRefused(ThermaeError):
    """The job's capabilities do not allow the tool call. The message says why."""

    code = "capability_refused"
    safe_to_retry = False
    advice = "Call the tool as the capabilities allow, or give the job more of them."


class ApprovalDenied(ThermaeError):
    """Somebody decided that the tool call is not made."""

    code = "approval_denied"
    safe_to_retry = False
    advice = "Do without the call, or ask whoever decides why it was denied."


class ToolCallLimit(ThermaeError):
    """The tool was called more often than allowed."""

    code = "tool_call_limit"
    safe_to_retry = False
    advice = "Call the tool less often, or raise its max_calls."


class ToolArguments(ThermaeError):
    """The arguments of a tool call do not match the tool's input schema, or can't be sent."""

    code = "tool_arguments"
    safe_to_retry = False
    advice = "Call the tool with arguments that match its input schema."


class ToolAnswerLimit(ThermaeError):
    """The tool's answer was dropped, because too many bytes of answers wait for runs to read them."""

    code = "tool_answer_limit"
    safe_to_retry = False
    advice = (
        "Have the program make fewer large calls at once, and read their answers sooner, or raise the bound of the "
        "workers that the error names (answers.tenant_disk, answers.disk)."
    )
