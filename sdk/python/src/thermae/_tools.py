"""Tools: functions of yours that the code in a sandbox can call."""

import builtins
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypedDict, TypeVar, cast, overload

from thermae._tool_text import ToolText, name_in_code, parameters_of
from thermae._units import to_ms
from thermae.errors import BadTool

if TYPE_CHECKING:
    from thermae._schema import Schema

P = ParamSpec("P")
R = TypeVar("R")

_OWN = {*dir(builtins), "ToolError", "display", "tools"} - {"copyright", "credits", "license"}
"""Names that every program has of its own."""


class _Required(TypedDict):
    name: str
    handler: Callable[..., Any]


class ToolSpec(_Required, total=False):
    """A ready-made description of a tool, with the function that answers its calls.

    The handler gets the arguments by name, unchanged, and returns (or awaits) anything that JSON can express.

    Attributes:
        name: Name of the tool.
        handler: The function, sync or async.
        description: What the tool does, for the model that writes the code.
        input_schema: JSON Schema of the arguments. Calls with other arguments never reach the handler.
        max_calls: How many times one job can call the tool.
        timeout: Seconds that one call may take.
        raw: Whether the code gets results as text instead of parsed JSON.
    """

    description: str
    input_schema: dict[str, Any]
    max_calls: int
    timeout: float
    raw: bool


class Tool(Generic[P, R]):
    """A function as a tool. It can still be called as the function that it was.

    Name, JSON Schema and documentation come from the function's hints and docstring. They are made when they are first
    needed, so that defining a tool costs no time and hints may name what is defined later.
    """

    __name__: str

    is_checked = False
    """Whether a fleet has read its schema."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        max_calls: int | None = None,
        timeout: float | None = None,
        raw: bool = False,
        input_schema: dict[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.name = name or _name_of(function)
        self.max_calls = max_calls
        self.timeout = timeout
        self.raw = raw
        self._description = description
        self._given_schema = input_schema
        if not callable(function):
            raise BadTool(f"{function!r} is not callable")
        functools.update_wrapper(cast("Callable[..., Any]", self), function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function itself, here and now."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "Tool[..., R]":
        """The tool as a method: its calls get the instance."""
        if instance is None:
            return self
        bound = cast("Callable[..., R]", self.function).__get__(instance, owner)
        return Tool(
            bound,
            name=self.name,
            description=self._description,
            max_calls=self.max_calls,
            timeout=self.timeout,
            raw=self.raw,
            input_schema=self._given_schema,
        )

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    @functools.cached_property
    def schema(self) -> "Schema":
        """How arguments and results are checked.

        Raises:
            BadTool: A hint can't be expressed in JSON Schema.
        """
        from thermae._schema import Schema  # It imports pydantic, which takes a tenth of a second.

        return Schema.of(self.function, self.name, self._given_schema)

    @property
    def is_async(self) -> bool:
        """Whether calls are awaited. All others run in threads."""
        function = _innermost(self.function)
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_call_of(function))

    @property
    def description(self) -> str:
        """What the tool does, for the model that writes the code: the function's docstring."""
        if self._description is not None:
            return self._description
        function = _innermost(self.function)
        return inspect.getdoc(function if inspect.isroutine(function) else _call_of(function)) or ""

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return self.schema.arguments

    @property
    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the result, by the return hint; `{}` allows anything."""
        return self.schema.result

    @property
    def documentation(self) -> str:
        """The tool as a model should see it, as Python: the dicts that it takes and gives, signature and docstring.

        It shows what a program can send. `help(tool)` and `tools.describe(name)` show the same text in the sandbox.
        """
        return self._text.text(blocking=False)

    @property
    def sync_documentation(self) -> str:
        """The same for programs with `sync_tools`, which do not await it."""
        return self._text.text(blocking=True)

    @property
    def _text(self) -> ToolText:
        parameters, others = parameters_of(self.input_schema, self.schema.parameters)
        schemas = self.input_schema, self.output_schema
        return ToolText(name_in_code(self.name), self.description, parameters, others, *schemas, self.raw)

    def to_wire(self) -> dict[str, Any]:
        """The tool as a job declares it."""
        wire: dict[str, Any] = {"name": self.name, "description": self.description, "input_schema": self.input_schema}
        if self.schema.parameters is not None:
            wire["parameters"] = self.schema.parameters
        if self.max_calls is not None:
            wire["max_calls"] = self.max_calls
        if self.raw:
            wire["raw"] = True
        if self.output_schema:
            wire["output_schema"] = self.output_schema
        if self.timeout is not None:
            wire["timeout_ms"] = to_ms(self.timeout)
        return wire


AnyTool: TypeAlias = Tool[..., Any] | Callable[..., Any] | ToolSpec
"""What `tools=[…]` takes."""


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    max_calls: int | None = None,
    timeout: float | None = None,
    raw: bool = False,
) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    max_calls: int | None = None,
    timeout: float | None = None,
    raw: bool = False,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a function a tool: `@tool`, `@tool(max_calls=3)` or `tool(function, name="…")`.

    Args:
        function: The function, sync or async. The hints of its parameters become the JSON Schema of the arguments;
            arguments are checked and coerced to the hints on each call, and the result is written by the return hint.
        options: `name`, `description` (the docstring by default), `max_calls` (how often one job can call it),
            `timeout` (seconds for one call) and `raw` (the code gets results as text instead of parsed JSON).

    Raises:
        BadTool: The function has no name of its own, and none was given.
    """
    if function is None:

        def decorate(function: Callable[..., Any]) -> Tool[..., Any]:
            return Tool(function, **options)

        return decorate
    return Tool(function, **options)


def tools_by_name(tools: Iterable[AnyTool]) -> dict[str, Tool[..., Any]]:
    """The tools of a list, plain functions and descriptions among them, by name.

    Raises:
        BadTool: Something in the list is no tool, two have one name, or one has a name of Python's own.
    """
    found: dict[str, Tool[..., Any]] = {}
    called: dict[str, str] = {}
    for one in tools:
        made = as_tool(one)
        name = name_in_code(made.name)
        if made.name in found:
            raise BadTool(f"two tools have the name {made.name!r}")
        if name in called:
            raise BadTool(
                f"the tools {called[name]!r} and {made.name!r} are both called {name} in the code; rename one"
            )
        if name in _OWN:
            raise BadTool(
                f"a tool called {name} would hide Python's own {name} from the code: give it another name, as in "
                f"tool(function, name='my_{name}')"
            )
        found[made.name] = made
        called[name] = made.name
    return found


def as_tool(one: AnyTool) -> Tool[..., Any]:
    """A tool from a function or a description.

    Raises:
        BadTool: It is neither.
    """
    if isinstance(one, Tool):
        return cast("Tool[..., Any]", one)
    if not isinstance(one, Mapping):
        return Tool(one)
    spec = dict(cast("Mapping[str, Any]", one))
    handler = spec.pop("handler", None)
    unknown = spec.keys() - ToolSpec.__annotations__.keys()
    if not callable(handler) or not spec.get("name") or unknown:
        wrong = f"has the unknown keys {sorted(unknown)}" if unknown else "needs a name and a handler"
        raise BadTool(f"the description of a tool {wrong}")
    spec.setdefault("input_schema", {"type": "object"})
    return Tool(handler, **spec)


def _innermost(function: Any) -> Any:
    """What a `partial` or a `Tool` calls in the end."""
    while True:
        match function:
            case functools.partial(func=inner) | Tool(function=inner):
                function = inner
            case _:
                return function


def _call_of(function: Any) -> Any:
    """The method that runs when an object is called."""
    return cast("Any", type(function)).__call__


def _name_of(function: Any) -> str:
    if isinstance(function, Tool):
        return cast("Tool[..., Any]", function).name
    function = _innermost(function)
    name: str = getattr(function, "__name__", "") or type(function).__name__
    if name == "<lambda>":
        raise BadTool("a lambda has no name: use tool(function, name=…)")
    return name
