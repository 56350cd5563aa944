import asyncio
import functools
import json
import sys
import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Required, TypedDict, Unpack

import pytest
from bridge_log import Log
from pydantic import BaseModel, Field

from thermae import Job, Sandbox, Tool, ToolSpec, declare_tool, tool
from thermae._tool_text import name_in_code
from thermae._tools import as_tool, tools_by_name
from thermae.errors import BadTool


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Row:
    region: str
    amount: float


def call(made: Tool[..., Any], **arguments: Any) -> Any:
    positional, named = made.schema.bind(arguments)
    return made.function(*positional, **named)


@tool
def get_sales(region: str, quarter: Literal["Q1", "Q4"] = "Q4", *, limit: int = 10) -> list[Row]:
    """Sales rows of one region.

    Args:
        region: Name of the region,
            as people say it.
        quarter (str): The quarter.
        unknown: Not a parameter.

    Returns:
        The rows.
    """
    return [Row(region, limit)]


def test_a_tool_is_still_the_function() -> None:
    assert get_sales("East") == [Row("East", 10)]
    assert get_sales.__name__ == "get_sales"
    assert get_sales.__doc__ is not None


def test_name_schema_and_documentation_come_from_the_function() -> None:
    assert get_sales.to_wire() == {
        "name": "get_sales",
        "description": get_sales.description,
        "input_schema": {
            "type": "object",
            "additionalProperties": False,
            "required": ["region"],
            "properties": {
                "region": {"title": "Region", "type": "string", "description": "Name of the region, as people say it."},
                "quarter": {
                    "title": "Quarter",
                    "type": "string",
                    "enum": ["Q1", "Q4"],
                    "default": "Q4",
                    "description": "The quarter.",
                },
                "limit": {"title": "Limit", "type": "integer", "default": 10},
            },
        },
        "parameters": [
            {"name": "region", "kind": "positional_or_keyword", "required": True},
            {"name": "quarter", "kind": "positional_or_keyword", "required": False},
            {"name": "limit", "kind": "keyword_only", "required": False},
        ],
        "output_schema": get_sales.output_schema,
    }
    assert get_sales.description.startswith("Sales rows of one region.\n\nArgs:")
    assert get_sales.output_schema["items"]["$ref"] == "#/$defs/Row"
    signature = (
        "async def get_sales(region: str, quarter: Literal['Q1', 'Q4'] = 'Q4', *, limit: int = 10) -> list[Row]:"
    )
    assert signature in get_sales.documentation.splitlines()


def test_arguments_are_coerced_and_results_written_by_the_hints() -> None:
    @tool(name="move-to", max_calls=3, raw=True, description="Moves.", timeout=2)
    def move(p: Point, by: Annotated[float, Field(ge=0)] = 1, /, **more: int) -> Point:
        return Point(x=p.x + int(by), y=sum(more.values()))

    result = call(move, p={"x": "3"}, by="2", z=4)
    assert result == Point(x=5, y=4)
    assert move.schema.write(result) == b'{"x":5,"y":4}'
    wire = move.to_wire()
    assert (wire["name"], wire["max_calls"], wire["raw"], wire["description"]) == ("move-to", 3, True, "Moves.")
    with pytest.raises(
        ValueError, match=r"^p\.x: Field required; by: Input should be greater than or equal to 0; it is -1$"
    ):
        call(move, p={}, by=-1)


class Base(TypedDict):
    x: Annotated[int, Field(ge=1)]


class Node(Base, total=False):
    """A node."""

    kids: Required["list[Node]"]
    note: str


def test_the_typed_dict_of_typing_is_a_hint() -> None:
    @tool
    def walk(node: Node | None = None) -> dict[str, list[Node]]:
        return {"all": [node] if node else []}

    assert "class Node(TypedDict):" in walk.documentation
    assert "    x: int  # at least 1\n    kids: list[Node]\n    note: NotRequired[str]\n" in walk.documentation
    node = {"x": 1, "kids": [{"x": 2, "kids": [], "note": "n"}]}
    assert json.loads(walk.schema.write(call(walk, node=node))) == {"all": [node]}
    with pytest.raises(ValueError, match=r"^node\.kids\[0\]\.kids: Field required$"):
        call(walk, node={"x": 1, "kids": [{"x": 2}]})


def test_names_that_pydantic_uses_itself_are_fine() -> None:
    def odd(schema: int, model_config: int, self_: int, _private: int, validate: int = 5) -> int:
        return schema + model_config + self_ + _private + validate

    assert call(as_tool(odd), schema=1, model_config=2, self_=3, _private=4) == 15


def test_a_default_that_json_has_no_number_for_is_not_in_the_schema() -> None:
    def nearest(within: float = float("inf"), default: float = 1.5) -> float:
        return within + default

    made = as_tool(nearest)
    assert json.loads(json.dumps(made.to_wire(), allow_nan=False)) == made.to_wire()
    assert "default" not in made.input_schema["properties"]["within"]
    assert made.input_schema["properties"]["default"]["default"] == 1.5
    assert call(made) == float("inf")


def test_a_function_without_hints_takes_and_gives_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    made = as_tool(lambda_like)
    assert call(made, a=[1], b=None) == {"a": [1], "b": None}
    result = {"n": float("nan"), "p": Point(x=1), "s": {1}, (1, 2): [(3,)]}
    for _ in range(2):
        assert made.schema.write(result) == b'{"n":null,"p":{"x":1,"y":0},"s":[1],"1,2":[[3]]}'
        monkeypatch.setitem(sys.modules, "pandas", types.ModuleType("pandas"))  # Results are the same beside it.
    with pytest.raises(TypeError, match="can't be written as JSON"):
        made.schema.write(object())


def lambda_like(a, b):  # type: ignore[no-untyped-def]
    return {"a": a, "b": b}


class Shop:
    timeout = "not a tool's"

    def __init__(self, name: str) -> None:
        self.name = name

    def plain(self, n: int) -> str:
        """Plain method."""
        return f"{self.name} {n}"

    @tool(max_calls=1)
    def decorated(self, n: int) -> str:
        """Decorated method."""
        return f"{self.name} {n}"

    async def later(self, n: int) -> str:
        return f"{self.name} {n}"

    def __call__(self, n: int) -> str:
        """Called object."""
        return f"{self.name} {n}"


class Options(TypedDict, total=False):
    limit: Required[int]
    note: str


def test_the_keys_of_an_unpacked_typed_dict_are_arguments() -> None:
    def search(query: str, /, **options: Unpack[Options]) -> str:
        return f"{query} {options}"

    made = tool(search)
    assert made.input_schema["required"] == ["query", "limit"]
    assert made.input_schema["additionalProperties"] is False
    types = {name: one["type"] for name, one in made.input_schema["properties"].items()}
    assert types == {"query": "string", "limit": "integer", "note": "string"}
    assert [(one["name"], one["kind"], one["required"]) for one in made.schema.parameters or ()] == [
        ("query", "positional_only", True),
        ("limit", "keyword_only", True),
        ("note", "keyword_only", False),
    ]
    assert call(made, query="x", limit=2) == "x {'limit': 2}"
    with pytest.raises(ValueError, match="limit: Field required"):
        call(made, query="x", note="y")


def test_methods_partials_and_objects_are_tools() -> None:
    shop = Shop("x")
    made = tools_by_name([shop.plain, shop.decorated, shop, functools.partial(add, b=5), shop.later])
    assert list(made) == ["plain", "decorated", "Shop", "add", "later"]
    assert [made[name].description for name in ("plain", "decorated", "Shop", "add")] == [
        "Plain method.",
        "Decorated method.",
        "Called object.",
        "Adds.",
    ]
    assert [call(made[name], n="2") for name in ("plain", "decorated", "Shop")] == ["x 2"] * 3
    assert made["decorated"].max_calls == 1
    assert call(made["add"], a=1) == 6
    assert list(made["add"].input_schema["properties"]) == ["a"]
    assert asyncio.run(call(made["later"], n=1)) == "x 1"
    assert [one.is_async for one in made.values()] == [False, False, False, False, True]
    assert shop.decorated(3) == "x 3"


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


class Later:
    async def __call__(self) -> None: ...


def test_async_is_seen_through_wrappers() -> None:
    async def one(a: int) -> int:
        return a

    assert as_tool(functools.partial(one, a=1)).is_async
    assert tool(tool(one), name="two").is_async
    assert tool(tool(one), name="two").description == ""
    assert as_tool(Later()).is_async


def test_a_description_with_a_handler_is_a_tool() -> None:
    spec: ToolSpec = {
        "name": "search",
        "handler": lambda **arguments: arguments,
        "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
        "max_calls": 2,
    }
    made = as_tool(spec)
    assert made.to_wire() == {
        "name": "search",
        "description": "",
        "input_schema": spec["input_schema"],
        "max_calls": 2,
    }
    assert call(made, q="a") == {"q": "a"}


def test_hints_may_name_what_is_defined_later() -> None:
    @tool
    def early(x: "Late") -> "Late":
        return x

    assert early.input_schema["properties"]["x"]["type"] == "integer"


Late = int


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (lambda x: x, "a lambda has no name"),
        ({"name": "x"}, "needs a name and a handler"),
        ({"name": "x", "handler": add, "schema": {}}, "unknown keys"),
        (7, "is not callable"),
    ],
)
def test_what_is_no_tool_is_refused_at_once(bad: Any, why: str) -> None:
    with pytest.raises(BadTool, match=why):
        as_tool(bad)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(BadTool, match="two tools have the name 'add'"):
        tools_by_name([add, tool(add)])
    with pytest.raises(BadTool, match="are both called a_b in the code"):
        tools_by_name([tool(add, name="a-b"), tool(add, name="a.b")])


@pytest.mark.parametrize("name", ["print", "ValueError", "open", "tools", "display", "ToolError", "exit", "__import__"])
def test_a_tool_that_hides_a_name_of_pythons_is_refused(name: str) -> None:
    with pytest.raises(BadTool, match=f"a tool called {name} would hide Python's own {name} from the code"):
        Sandbox(tools=[tool(add, name=name)])


UNREADABLE: ToolSpec = {"name": "odd", "input_schema": {"pattern": "no_pattern"}, "handler": add}


def test_a_tool_that_the_fleet_cant_read_is_told_when_the_sandbox_opens(bridge: Log) -> None:
    with pytest.raises(BadTool, match="no engine reads it"), Sandbox(tools=[add, UNREADABLE]):
        pytest.fail("it opened")
    assert bridge.frames("run") == []
    with (
        pytest.raises(BadTool, match="'odd' can't be written as JSON"),
        Sandbox(tools=[{**UNREADABLE, "input_schema": {"const": float("nan")}}]),
    ):
        pytest.fail("it opened")


def test_a_tool_that_the_fleet_cant_read_is_told_when_a_run_gets_it(bridge: Log) -> None:
    with Sandbox() as box:
        for begin in (box.run, box.submit):
            with pytest.raises(BadTool, match="no engine reads it"):
                begin("print 1", tools=[UNREADABLE])
        with pytest.raises(BadTool, match="no engine reads it"):
            list(box.batch([Job("print 1", tools=[UNREADABLE])]))
        assert bridge.frames("run") == []
        assert box.run("print 1").stdout == "1\n"


def test_the_fleet_reads_a_tool_once(bridge: Log) -> None:
    own = tool(add, name="own")
    with Sandbox(tools=[add]) as box:
        for _ in range(2):
            assert box.run("print 1").ok
            assert box.run("print 1", tools=[own]).ok
    assert len(bridge.frames("check_tools")) == 2


@pytest.mark.parametrize(
    ("name", "called"),
    [("a-b.c/d", "a_b_c_d"), ("2x", "_2x"), ("class", "class_"), ("größe", "größe"), ("-", "_"), ("", "_")],
)
def test_a_name_in_the_code_is_an_identifier(name: str, called: str) -> None:
    assert name_in_code(name) == called


def several(*numbers: int) -> None: ...
def unknown(x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def strange(x: asyncio.Lock) -> None: ...


@pytest.mark.parametrize(
    ("function", "why"),
    [(several, "use one that is a list"), (unknown, "Nowhere"), (strange, "Lock")],
)
def test_hints_that_cant_be_used_are_told_by_name(function: Any, why: str) -> None:
    with pytest.raises(BadTool, match=f"the tool '{function.__name__}'.*{why}"):
        _ = as_tool(function).schema


def test_parameters_have_the_kinds_and_names_that_calls_need() -> None:
    def pay(
        to: str, /, amount: Annotated[int, Field(alias="sum")], note: str = "", *, day: int, now: bool = True
    ) -> None:
        pass

    def free(a: int, **others: object) -> None:
        pass

    assert [tuple(one.values()) for one in tool(pay).to_wire()["parameters"]] == [
        ("to", "positional_only", True),
        ("sum", "positional_or_keyword", True),
        ("note", "positional_or_keyword", False),
        ("day", "keyword_only", True),
        ("now", "keyword_only", False),
    ]
    assert [one["name"] for one in tool(free).to_wire()["parameters"]] == ["a"]
    assert tool(free).input_schema["additionalProperties"] is True
    # Only the schema tells them.
    assert "parameters" not in declare_tool("ask", input_schema={"properties": {"b": {}, "a": {}}}).to_wire()
