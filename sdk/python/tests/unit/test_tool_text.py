"""What a model reads about a tool."""

import ast
import json
import random
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from pydantic import BaseModel, Field
from signatures import Color, Hints, Reading

from thermae import Tool, declare_tool, tool
from thermae._tool_text import name_in_code


def test_the_text_is_python_and_a_call_made_from_it_fits() -> None:
    for seed in range(150):
        made: Tool[..., Any] = tool(Hints(random.Random(seed)).function("f"))
        assert "__main__" not in made.documentation
        reading = Reading(made.documentation)
        for whole in (False, True):
            arguments = arguments_of(reading.call(whole), [one["name"] for one in made.to_wire()["parameters"]])
            jsonschema.validate(json.loads(json.dumps(arguments)), made.input_schema)
            positional, named = made.schema.bind(arguments)
            result = made.schema.write(made.function(*positional, **named))
            jsonschema.validate(json.loads(result), made.output_schema)


def arguments_of(call: str, parameters: list[str]) -> dict[str, Any]:
    """The arguments of a call by their names."""

    def f(*args: Any, **named: Any) -> dict[str, Any]:
        return dict(zip(parameters, args, strict=False)) | named

    found: dict[str, Any] = eval(call, {"f": f})
    return found


class Item(BaseModel):
    sku: str = Field(validation_alias="SKU", serialization_alias="SKU", pattern="^[A-Z]+$")
    count: int = Field(1, ge=1, description="How many.")


class Order(BaseModel):
    """An order."""

    items: list[Item]
    parent: "Order | None" = None


def test_the_text_shows_what_is_sent() -> None:
    @tool(name="shop/order", max_calls=2)
    def order(order: Order, color: Color = Color.RED, *, note: str = "", **counts: int) -> Order:
        """Orders.

        Args:
            order: What to order.
            note: A note \\ "remark".
        """
        return order

    text = '''\
# Dicts with these keys. Their names are not defined in the program.
class Order(TypedDict):
    """An order."""
    items: list[Item]
    parent: NotRequired[Order | None]


class Item(TypedDict):
    SKU: str  # matches ^[A-Z]+$
    count: NotRequired[int]  # How many. At least 1; default: 1


async def shop_order(order: Order, color: Literal['red', 'blue'] = 'red', *, note: str = '', **kwargs: int) -> Order:
    """Orders.

    Args:
        order: What to order.
        note: A note \\\\ "remark".
    """'''
    assert order.documentation == text
    assert order.sync_documentation == text.replace("async def", "def")
    positional, named = order.schema.bind({"order": {"items": [{"SKU": "A"}]}})
    assert order.schema.write(order.function(*positional, **named)) == (
        b'{"items":[{"SKU":"A","count":1}],"parent":null}'
    )


def test_a_ready_made_schema_is_read_as_the_worker_reads_it() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "max-age": {}}, "required": ["max-age"]}
    pay = declare_tool("2 pay", input_schema=schema, output_schema={"type": "string", "format": "date"})
    assert pay.documentation == (
        "async def _2_pay(\n    n: int = ...,\n    **kwargs,  # 'max-age': Any; give it as **{'max-age': ...}\n"
        ") -> str:  # a date, such as '2026-07-04'\n    ..."
    )
    assert declare_tool("x").documentation == "async def x(**kwargs):\n    ..."


def test_a_tools_name_in_the_code_is_one() -> None:
    names = {"a-b.c/d": "a_b_c_d", "2x": "_2x", "class": "class_", "größe": "größe", "x²": "x_", "-": "_", "": "_"}
    for name, expected in names.items():
        assert name_in_code(name) == expected
        ast.parse(f"def {expected}(): ...")
