"""Tools that no function answers."""

from typing import Any, NoReturn

from thermae._tools import Tool
from thermae.errors import BadTool


class DeclaredTool(Tool[..., Any]):
    """A tool that the code can call and that no function answers; `declare_tool` makes it."""

    def __init__(
        self, name: str, *, input_schema: dict[str, Any], output_schema: dict[str, Any], **options: Any
    ) -> None:
        super().__init__(_unanswered, name=name, input_schema=input_schema, **options)
        self._output_schema = output_schema

    @property
    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the answers; `{}` allows anything."""
        return self._output_schema


def declare_tool(
    name: str,
    *,
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    max_calls: int | None = None,
    timeout: float | None = None,
    raw: bool = False,
) -> Tool[..., Any]:
    """Declares a tool that no function answers: each call waits until somebody answers it with `Run.answer`.

    This is for decisions that a person makes, and for answers that come from another process.

    Args:
        name: Name of the tool.
        description: What the tool does, for the model that writes the code.
        input_schema: JSON Schema of the arguments. Calls with other arguments raise `ToolError` at once.
        output_schema: JSON Schema of the answers, for the documentation. Whoever answers keeps to it.
        max_calls: How many times one run can call the tool.
        timeout: Seconds that one call may take; also bounded by `tool_wait` of the run.
        raw: Whether the code gets answers as text instead of parsed JSON.

    Raises:
        BadTool: There is no name.
    """
    if not name:
        raise BadTool("a tool needs a name")
    return DeclaredTool(
        name,
        input_schema={"type": "object"} if input_schema is None else input_schema,
        output_schema=output_schema or {},
        description=description,
        max_calls=max_calls,
        timeout=timeout,
        raw=raw,
    )


def _unanswered(**_: Any) -> NoReturn:
    raise BadTool("a tool that is only declared has no function to call: Run.answer answers its calls")
