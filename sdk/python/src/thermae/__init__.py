"""Thermae runs the code that agents write: in a fresh sandbox each time, with your own functions as its tools.

```python
from thermae import Sandbox, tool

@tool
def get_sales(region: str, quarter: str) -> list[dict]:
    \"\"\"Sales rows of one region and quarter.\"\"\"
    return table[region, quarter]

with Sandbox(tools=[get_sales]) as box:
    print(box.run("print(len(await get_sales(region='East', quarter='Q4')))").stdout)
```
"""

from thermae._approvals import Approve, Verdict
from thermae._artifacts import Artifact, AsyncArtifact
from thermae._async_batch import AsyncBatch
from thermae._async_process import AsyncProcess, AsyncStdin
from thermae._async_run import AsyncRun
from thermae._async_sandbox import AsyncSandbox, SessionInfo
from thermae._async_session import AsyncSession, SessionSettings
from thermae._async_session_files import AsyncFiles
from thermae._async_stream import AsyncStream
from thermae._batch import Batch
from thermae._capabilities import Capability, Comparison, Constraint, NeedsApproval
from thermae._commands import CommandOptions, ExecOptions, ExecResult, Output
from thermae._declared import declare_tool
from thermae._error import ThermaeError
from thermae._events import Accepted, Approval, Audit, Display, LiveEvent, MimeBundle, Started, Stderr, Stdout, ToolCall
from thermae._file_results import FileStat, Found, Match
from thermae._files import InputFile
from thermae._for_model import ForModel, ModelImage
from thermae._jobs import Job, JobOptions, RunOptions, SessionOptions, StreamOptions
from thermae._made_calls import CallState, MadeCall
from thermae._options import EmbeddedOptions
from thermae._process import Process, Stdin
from thermae._progress import BatchItem, Progress
from thermae._results import AsyncResult, ErrorInfo, LeftOut, LimitsUsed, Result, SessionState, Status, Usage
from thermae._run import Run
from thermae._run_info import PendingCall, RunInfo, RunOutput, RunState
from thermae._sandbox import Sandbox
from thermae._session import Session
from thermae._session_files import Files
from thermae._stream import Stream
from thermae._tools import Tool, ToolSpec, tool
from thermae._version import VERSION as __version__
from thermae.errors import EmbeddedUnavailable, ForkedClientError

__all__ = [
    "Accepted",
    "Approval",
    "Approve",
    "Artifact",
    "AsyncArtifact",
    "AsyncBatch",
    "AsyncFiles",
    "AsyncProcess",
    "AsyncResult",
    "AsyncRun",
    "AsyncSandbox",
    "AsyncSession",
    "AsyncStdin",
    "AsyncStream",
    "Audit",
    "Batch",
    "BatchItem",
    "CallState",
    "Capability",
    "CommandOptions",
    "Comparison",
    "Constraint",
    "Display",
    "EmbeddedOptions",
    "EmbeddedUnavailable",
    "ErrorInfo",
    "ExecOptions",
    "ExecResult",
    "FileStat",
    "Files",
    "ForModel",
    "ForkedClientError",
    "Found",
    "InputFile",
    "Job",
    "JobOptions",
    "LeftOut",
    "LimitsUsed",
    "LiveEvent",
    "MadeCall",
    "Match",
    "MimeBundle",
    "ModelImage",
    "NeedsApproval",
    "Output",
    "PendingCall",
    "Process",
    "Progress",
    "Result",
    "Run",
    "RunInfo",
    "RunOptions",
    "RunOutput",
    "RunState",
    "Sandbox",
    "Session",
    "SessionInfo",
    "SessionOptions",
    "SessionSettings",
    "SessionState",
    "Started",
    "Status",
    "Stderr",
    "Stdin",
    "Stdout",
    "Stream",
    "StreamOptions",
    "ThermaeError",
    "Tool",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "Verdict",
    "__version__",
    "declare_tool",
    "tool",
]
