"""Tools of a real fleet, called by the code of its runs."""

import inspect
import json
import math
import random
import struct
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from fleets import any_fleet
from signatures import Hints, Reading
from values import VALUES, Pair

from thermae import Sandbox, Tool, ToolSpec, declare_tool, errors, tool
from thermae._tools import as_tool


@tool
def transfer(source: str, dest: str, amount: int = 1) -> str:
    """Moves money."""
    return f"{amount} from {source} to {dest}"


def test_positional_arguments_have_the_order_of_the_function() -> None:
    code = """
import inspect
print(await transfer("alice", "bob"))
print(await transfer("alice", dest="bob", amount=2))
print(inspect.signature(transfer))
help(transfer)
"""
    with Sandbox(tools=[transfer], **any_fleet(1)) as box:
        lines = box.run(code).stdout.splitlines()
    signature = "(source: str, dest: str, amount: int = 1) -> str"
    assert lines[:3] == ["1 from alice to bob", "2 from alice to bob", signature]
    assert "\n".join(lines[3:]) == transfer.documentation


UNREADABLE: list[tuple[dict[str, Any], str]] = [
    ({"properties": {"x": {"pattern": r"^a\Z"}}}, r"\\Z is no escape of ECMA-262"),
    ({"properties": {"x": {"pattern": r"^(?:(a)|b)*\1$"}}}, "engines differ"),
    ({"$schema": "https://example.com/my-draft"}, "not a draft of JSON Schema"),
    ({"$ref": "https://example.com/s.json"}, "points outside the schema"),
    ({"properties": {"x": {"type": "objekt"}}}, r'properties\.x\.type: "objekt" is not'),
]


def test_a_tool_whose_schema_cant_be_read_is_told_before_a_program_runs() -> None:
    def odd(schema: dict[str, Any]) -> ToolSpec:
        return {"name": "odd", "input_schema": schema, "handler": lambda **_: None}

    told = "The tool \"odd\" can't be called: its input schema can't be used: .*"
    with Sandbox(**any_fleet(1)) as box:
        for schema, why in UNREADABLE:
            with pytest.raises(errors.BadTool, match=told + why):
                box.run("print(1)", tools=[odd(schema)])
    schema, why = UNREADABLE[0]
    with pytest.raises(errors.BadTool, match=told + why), Sandbox(tools=[transfer, odd(schema)], **any_fleet(1)):
        pytest.fail("it opened")


def test_integers_of_any_size_arrive_with_all_their_digits() -> None:
    seen: list[object] = []

    @tool
    def keep(n: int) -> int:
        seen.append(n)
        return n

    numbers = [0, -(2**63) - 1, 2**64 - 1, 2**64, 10**20 + 1, 10**77 + 1]
    with Sandbox(tools=[keep], **any_fleet(1)) as box:
        result = box.run("print([await keep(n) for n in numbers] == numbers)", inputs={"numbers": numbers})
    assert (seen, result.stdout) == (numbers, "True\n")


def any_json(chosen: random.Random, depth: int = 0) -> Any:
    """A value of JSON: integers of any size, floats of any kind, keys in any order."""
    kind = chosen.choice("iiffsb" if depth == 4 else "iiffsblldd")
    if kind in "ld":
        items = [any_json(chosen, depth + 1) for _ in range(chosen.randrange(5))]
        if kind == "l":
            return items
        return {"".join(chosen.choices('zaB é\\"/\n', k=3)) + str(place): item for place, item in enumerate(items)}
    if kind == "i":
        return chosen.choice([1, -1]) * chosen.getrandbits(chosen.choice([3, 53, 54, 63, 64, 65, 200]))
    if kind == "f":
        (number,) = struct.unpack("<d", chosen.randbytes(8))
        return number if math.isfinite(number) else -0.0
    return chosen.choice([None, True, False]) if kind == "b" else "".join(chosen.choices("a\u00e4\U0001f600\0", k=4))


def test_numbers_and_the_order_of_keys_stay_on_all_ways() -> None:
    seen: list[Any] = []

    @tool
    def echo(value: Any) -> Any:
        seen.append(value)
        return value

    def schemaless(**arguments: Any) -> Any:
        seen.append(arguments["value"])
        return arguments["value"]

    raw: ToolSpec = {"name": "raw", "handler": schemaless}
    code = """
class Shown:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"application/json": values, "text/plain": repr(values)}
print(repr(await echo(values)) == repr(await raw(value=values)) == repr(values))
Shown()
"""
    values = [any_json(random.Random()) for _ in range(200)]
    with Sandbox(tools=[echo, raw], **any_fleet(1)) as box:
        result = box.run(code, inputs={"values": values})
    assert result.stdout == "True\n", result.error
    assert result.value is not None
    for found in [*map(repr, seen), result.value["text/plain"], repr(result.value["application/json"])]:
        assert found == repr(values)
    assert len(seen) == 2


def test_what_is_two_values_to_readers_is_refused_with_its_place() -> None:
    twice: dict[Any, int] = {1: 0, "1": 1}

    @tool
    def odd(wanted: int) -> Any:
        return {"n": [10**400, twice][wanted]}

    code = """
for call in [lambda: odd(0), lambda: odd(1), lambda: odd(wanted={1: 0, "1": 1}), lambda: odd(wanted=[10**400])]:
    try:
        await call()
    except ToolError as error:
        print(error)
"""
    with Sandbox(tools=[odd], **any_fleet(1)) as box:
        lines = box.run(code).stdout.splitlines()
        wrong: list[tuple[Any, str]] = [([10**400], "/0: number out of range"), (twice, '/1: the key "1" stands twice')]
        for value, why in wrong:
            with pytest.raises(errors.SchemaViolation, match=f"at /inputs/x/value{why}"):
                box.run("", inputs={"x": value})
    wanted = ["/ok/n: number out", '/ok/n/1: the key "1"', '/wanted/1: the key "1"', "/wanted/0: number out"]
    assert len(lines) == len(wanted)
    for line, place in zip(lines, wanted, strict=True):
        assert f"at {place}" in line


def test_a_lone_dict_is_the_argument_of_a_parameter_that_takes_one() -> None:
    @tool
    def count(order: dict[str, int], note: str = "") -> str:
        return f"{order} {note}"

    code = "print(await count({'n': 1}))\nprint(await count({'n': 1}, note='x'))\nawait count({'order': {}})"
    with Sandbox(tools=[count], **any_fleet(1)) as box:
        result = box.run(code)
    assert result.stdout == "{'n': 1} \n{'n': 1} x\n"
    assert result.error is not None
    assert result.error.exception == "TypeError"
    assert "the dict can be the argument 'order' or hold all arguments" in result.error.message


def function_of(chosen: random.Random, name: str) -> Callable[..., Any]:
    """A function with parameters of all kinds, which returns its arguments."""
    kinds = sorted(chosen.choice("pwk") for _ in range(chosen.randrange(6)))
    kinds = [kind for wanted in "pwk" for kind in kinds if kind == wanted]  # By place, both ways, by name.
    first_default = chosen.randrange(len(kinds) + 1)
    words: list[str] = []
    for place, (kind, parameter) in enumerate(zip(kinds, chosen.sample("abcdefgh", len(kinds)), strict=True)):
        if kind == "k" and "k" not in kinds[:place]:
            words.append("*")
        has_default = chosen.random() < 0.5 if kind == "k" else place >= first_default
        hint = chosen.choice(["", ": int", ": int | dict"])
        words.append(f"{parameter}{hint}" + (f" = {place}" if has_default else ""))
        if kind == "p" and kinds[place + 1 : place + 2] != ["p"]:
            words.append("/")
    if chosen.random() < 0.2:
        words.append("**more")
    made: dict[str, Any] = {}
    exec(f"def {name}({', '.join(words)}):\n    return locals()", made)
    function: Callable[..., Any] = made[name]
    return function


def bound(function: Callable[..., Any], args: list[int], named: dict[str, int]) -> dict[str, Any] | None:
    """What Python gives the function. None if it refuses the call."""
    signature = inspect.signature(function)
    if any(p.kind is p.POSITIONAL_ONLY and p.name in named for p in signature.parameters.values()):
        return None  # Python would take it for one of `more`, but arguments go by their names.
    try:
        found = signature.bind(*args, **named)
    except TypeError:
        return None
    found.apply_defaults()
    return dict(found.arguments)


def test_calls_bind_as_python_binds_them() -> None:
    chosen = random.Random(38)
    functions = {f"t{n}": function_of(chosen, f"t{n}") for n in range(40)}
    calls: list[tuple[str, list[int], dict[str, int]]] = []
    for name, function in functions.items():
        names = [*inspect.signature(function).parameters, "x", "y"]
        for _ in range(12):
            named = dict.fromkeys(chosen.sample(names, chosen.randrange(len(names) - 1)), 10)
            calls.append((name, [chosen.randrange(9) for _ in range(chosen.randrange(len(names)))], named))
    code = """
import json
for name, args, named in calls:
    try:
        print(json.dumps(await globals()[name](*args, **named)))
    except TypeError:
        print("null")
"""
    with Sandbox(tools=list(functions.values()), **any_fleet(1)) as box:
        result = box.run(code, inputs={"calls": calls})
    found = [json.loads(line) for line in result.stdout.splitlines()]
    wanted = [bound(functions[name], args, named) for name, args, named in calls]
    assert result.ok, result.error
    assert len(wanted) / 5 < wanted.count(None) < len(wanted) * 4 / 5
    assert found == wanted


def test_a_program_reads_the_same_text_and_calls_made_from_it_are_answered() -> None:
    hints = Hints(random.Random(38))
    strange: ToolSpec = {
        "name": "x²/y",
        "description": 'Has """ in it.',
        "input_schema": {
            "properties": {"a b": {}, "c": {"allOf": [{"type": "integer"}, {"minimum": 2}]}},
            "anyOf": [{}],
        },
        "handler": lambda c: c,
    }
    made = [tool(hints.function(f"t{n}")) for n in range(60)]
    made += [as_tool(strange), tool(len, name="length"), declare_tool("class")]
    calls = [
        reading.call(whole) for reading in (Reading(one.documentation) for one in made[:60]) for whole in (False, True)
    ]
    code = """
import inspect
print(json.dumps([tools.describe(one.name) for one in tools.list()]))
print(all(one.signature == one.name + str(inspect.signature(globals()[one.name])) for one in tools.list()))
for call in calls:
    try:
        await eval(call)
    except Exception as error:
        print(call, error)
"""
    with Sandbox(tools=made, **any_fleet(1)) as box:
        result = box.run("import json" + code, inputs={"calls": calls}, check=True)
    texts, *others = result.stdout.splitlines()
    assert json.loads(texts) == [one.documentation for one in made]
    assert others == ["True"]


def test_values_cross_in_their_forms_both_ways() -> None:
    seen: list[Any] = []

    @tool
    def keep(value: Any) -> Any:
        seen.append(value)
        return VALUES[value][0] if isinstance(value, str) and value in VALUES else value

    def typed(number: int, hint: Any) -> Tool[..., Any]:
        def keep_one(value: Any) -> Any:
            seen.append(value)
            return value

        keep_one.__annotations__ = {"value": hint, "return": hint}
        return tool(keep_one, name=f"keep{number}")

    kinds = [(type(value), value, form) for value, form in VALUES.values() if type(value).__module__ != "builtins"]
    kinds = [one for one in kinds if one[0] not in (type({}.keys()), type(MappingProxyType({})), Pair)]
    made = [typed(number, kind) for number, (kind, _, _) in enumerate(kinds)]
    enums = "Color, Level = enum.Enum('Color', {'RED': 'red'}), enum.IntEnum('Level', {'HIGH': 2})"
    source = (Path(__file__).parents[1] / "values.py").read_text().replace("from signatures import Color, Level", enums)
    code = """
for name, (value, form) in VALUES.items():
    await keep(value)
    assert await keep(name) == form, name
    assert inputs[name] == form, name
    assert keep.sync([value, {"a": value}]) == [form, {"a": form}], name
for n, name in enumerate(names):
    value, form = VALUES[name]
    assert await globals()[f"keep{n}"](value) == form, name
"""
    names = [next(name for name, (one, _) in VALUES.items() if one is value) for _, value, _ in kinds]
    inputs = {"inputs": {name: value for name, (value, _) in VALUES.items()}, "names": names}
    with Sandbox(tools=[keep, *made], **any_fleet(1)) as box:
        box.run(source + code, inputs=inputs, check=True)
    forms = [form for _, form in VALUES.values()]
    assert seen[: 3 * len(VALUES) : 3] == forms
    assert seen[3 * len(VALUES) :] == [value for _, value, _ in kinds]


def test_a_value_without_a_form_is_named() -> None:
    @tool
    def keep(order: dict[str, Any]) -> Any:
        return {"n": [object()]}

    code = """
for value in ({"items": [{"n": 1j}]}, {"data": b"\\xff"}, {}):
    try:
        await keep(order=value)
    except (TypeError, ValueError) as error:
        print(error)
"""
    with Sandbox(tools=[keep], **any_fleet(1)) as box:
        lines = box.run(code, check=True).stdout.splitlines()
    assert lines == [
        "tool keep: argument order.items[0].n is a complex number, and JSON has none: pass [z.real, z.imag]",
        "tool keep: argument order.data has bytes that are not UTF-8: pass base64.b64encode(data).decode()",
        "the result can't be written as JSON: result.n[0] has the type object, which JSON can't express: "
        "use text, numbers, lists or dicts",
    ]


def test_names_are_pythons_matter_and_values_the_tools() -> None:
    @tool
    def double(n: int, *, times: int = 2) -> int:
        return n * times

    code = """
calls = [((), {}), ((1, 2), {}), ((1,), {"tiems": 3}), (({"n": 1, "m": 2},), {}), (("x",), {}), ((4,), {"times": 3})]
for args, named in calls:
    try:
        print(await double(*args, **named))
    except (TypeError, ToolError) as error:
        print(type(error).__name__, str(error)[:58])
"""
    with Sandbox(tools=[double], **any_fleet(1)) as box:
        result = box.run(code)
    assert result.stdout.splitlines() == [
        "TypeError double() is missing required argument 'n'",
        "TypeError double() takes 1 positional argument but 2 were given (or ",
        "TypeError double() got unexpected argument 'tiems'; it takes argumen",
        "TypeError double() got unexpected argument 'm'; it takes arguments '",
        result.stdout.splitlines()[4],
        "12",
    ]
    assert result.stdout.splitlines()[4].startswith("ToolError tool_arguments")


def test_a_call_without_await_is_told() -> None:
    with Sandbox(tools=[transfer], **any_fleet(1)) as box:
        result = box.run("print(transfer('alice', 'bob'))")
        failed = box.run("transfer('alice', 'bob')['amount']")
        awaited = box.run("import asyncio\nprint(await asyncio.gather(transfer('a', 'b')))")
    note = "You called transfer without await, so it did not run: write `await transfer(...)`."
    assert result.ok
    assert result.notes == failed.notes == [note]
    assert result.for_model().text.endswith(f"\n- {note}")
    assert note in failed.for_model().text
    error = failed.to_error()
    assert error is not None
    assert error.__notes__ == [note]
    assert (awaited.stdout, awaited.notes) == ("['1 from a to b']\n", [])


def test_synchronous_tools_give_their_results() -> None:
    code = "print(transfer('a', 'b').upper(), transfer(source='c', dest='d'))"
    with Sandbox(tools=[transfer], **any_fleet(1)) as box:
        printed = [box.run(code, sync_tools=True).stdout, box.submit(code, sync_tools=True).result().stdout]
        printed += [done.result.stdout for done in box.batch([code], sync_tools=True)]
        with box.session() as session:
            printed.append(session.run(code, sync_tools=True).stdout)
            assert session.run("await transfer('a', 'b')").ok
    with Sandbox(tools=[transfer], sync_tools=True, **any_fleet(1)) as box:
        printed += [box.run(code).stdout, box.submit(code).result().stdout]
        assert box.run("print(await transfer('a', 'b'))", sync_tools=False).stdout == "1 from a to b\n"
    assert printed == ["1 FROM A TO B 1 from c to d\n"] * 6
    assert transfer.sync_documentation.startswith("def transfer(source: str")


def test_only_tools_that_the_capabilities_allow_are_listed() -> None:
    @tool
    def pay(n: int) -> int:
        return n

    code = "print([one.name for one in tools.list()])\nawait pay(1)"
    names = []
    with Sandbox(tools=[transfer, pay], **any_fleet(1)) as box:
        names.append(box.run(code).stdout)
        refused = box.run(code, capabilities=[{"pattern": "transfer"}])
        names += [refused.stdout, box.run(code, capabilities=[]).stdout]
        names.append(box.run(code, capabilities=[{"pattern": "*", "max_calls": 1}]).stdout)
        with box.session() as session:
            names += [session.run(code, capabilities=[]).stdout, session.run(code).stdout]
    both = ["transfer", "pay"]
    assert names == [f"{each}\n" for each in (both, ["transfer"], [], both, [], both)]
    assert refused.error is not None
    assert "capability_refused" in refused.error.message
