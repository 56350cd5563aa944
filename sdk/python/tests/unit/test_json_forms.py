"""What values are in JSON."""

import collections
import inspect
import json
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Annotated, Any

import pydantic
import pydantic_core
import pytest
from values import VALUES

from thermae import tool
from thermae._json_forms import jsonable
from thermae.errors import BadTool


def test_values_have_the_forms_of_pydantic() -> None:
    for name, (value, form) in VALUES.items():
        assert json.loads(json.dumps(jsonable(value, name))) == form, name
        assert json.loads(pydantic_core.to_json(value, fallback=lambda value: jsonable(value, "x"))) == form, name


def test_generators_and_others_that_are_read_once() -> None:
    assert jsonable((n for n in (1, {2})), "x") == [1, [2]]
    assert jsonable({"a": 1}.items(), "x") == [["a", 1]]
    assert jsonable(float("nan"), "x", nan_is_none=True) is None


def test_what_has_no_form_is_named_with_what_to_do() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value, error, text in (
        (
            {"a": [0, {"b c": 1j}]},
            TypeError,
            "x.a[1]['b c'] is a complex number, and JSON has none: pass [z.real, z.imag]",
        ),
        (b"\xff", ValueError, "x has bytes that are not UTF-8: pass base64.b64encode(data).decode()"),
        ([float("inf")], ValueError, "x[0] is inf, and JSON has no such number: use None"),
        ({(1, 2): 3}, TypeError, "a key of x is (1, 2), and keys of JSON are text: use a text such as '1, 2'"),
        ({"f": len}, TypeError, "x.f has the type builtin_function_or_method, which JSON can't express"),
        ({"s": {1, 2j}}, TypeError, "x.s["),
    ):
        with pytest.raises(error) as caught:
            jsonable(value, "x")
        assert text in str(caught.value)
    with pytest.raises(ValueError, match="is nested too deeply, or contains itself"):
        jsonable(endless, "x")
    with pytest.raises(ValueError, match="a key of x is nan, and JSON has no such number: use None"):
        jsonable({float("nan"): 1}, "x")
    assert jsonable({float("nan"): 1}, "x", nan_is_none=True) == {None: 1}


class Both(pydantic.BaseModel):
    of: dict[int | str, str]


@pytest.mark.parametrize(
    ("value", "at", "key"),
    [
        ({1: "a", "1": "b"}, "x", "1"),
        ({"1": "a", 1: "b"}, "x", "1"),
        ({None: "a", "null": "b"}, "x", "null"),
        ({True: "a", "true": "b"}, "x", "true"),
        ({1.5: "a", "1.5": "b"}, "x", "1.5"),
        ({date(2026, 7, 4): "a", "2026-07-04": "b"}, "x", "2026-07-04"),
        ({Decimal("1.0"): "a", "1.0": "b"}, "x", "1.0"),
        ({b"a": 1, "a": 2}, "x", "a"),
        ([{"a": {1: "a", "1": "b"}}], "x[0].a", "1"),
        (Both(of={1: "a", "1": "b"}), "x", "1"),
    ],
)
def test_two_keys_that_are_one_in_json_are_refused(value: Any, at: str, key: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f'{at}: the key "{key}" stands twice')):
        jsonable(value, "x")


def test_arrays() -> None:
    numpy = pytest.importorskip("numpy")
    for value, form in (
        (numpy.int64(3), 3),
        (numpy.float32(1.5), 1.5),
        (numpy.bool_(True), True),
        (numpy.str_("x"), "x"),
        (numpy.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (numpy.array(5), 5),
        (numpy.datetime64("2026-07-04"), "2026-07-04"),
        (numpy.datetime64("NaT"), None),
        (numpy.array(["2026-07-04T09:30"], dtype="datetime64[ns]"), ["2026-07-04T09:30:00.000000000"]),
        (numpy.timedelta64(90, "m"), "PT1H30M"),
        (numpy.timedelta64(1500, "ns"), "PT0.0000015S"),
        (numpy.array([("a", "2026-07-04")], dtype=[("n", "U1"), ("t", "datetime64[D]")]), [["a", "2026-07-04"]]),
        (numpy.void(b"ab"), "ab"),
        (numpy.ma.array([1.5, 2.5], mask=[False, True]), [1.5, None]),
        (numpy.ma.masked, None),
        ({"a": numpy.array(["a", None, {1}], dtype=object)}, {"a": ["a", None, [1]]}),
    ):
        assert json.loads(json.dumps(jsonable(value, "x"))) == form
    with pytest.raises(ValueError, match=r"x\[1\] is nan"):
        jsonable(numpy.array([1.5, numpy.nan]), "x")
    with pytest.raises(TypeError, match="complex"):
        jsonable(numpy.complex64(1j), "x")
    for span in (numpy.timedelta64(2, "M"), numpy.timedelta64(3), numpy.timedelta64(5, "ps")):
        with pytest.raises(ValueError, match=r"x is .*, and JSON has no such time: use days or seconds"):
            jsonable(span, "x")


def test_tables() -> None:
    pandas = pytest.importorskip("pandas")
    times = pandas.to_datetime(["2026-07-04", None])
    frame = pandas.DataFrame({"a": [1, 2], "t": times, "x": [1.5, None], "s": ["p", None]})
    rows = [{"a": 1, "t": "2026-07-04T00:00:00", "x": 1.5, "s": "p"}, {"a": 2, "t": None, "x": None, "s": None}]
    for value, form in (
        (frame, rows),
        (frame["x"], [1.5, None]),
        (frame.columns, ["a", "t", "x", "s"]),
        (pandas.Series([1, None], dtype="Int64"), [1, None]),
        (pandas.Timestamp("2026-07-04", tz="UTC"), "2026-07-04T00:00:00Z"),
        (pandas.NaT, None),
        (pandas.NA, None),
        (pandas.Timedelta("1h"), "PT1H"),
        (pandas.Categorical(["a", None]), ["a", None]),
        (pandas.arrays.SparseArray([1.5, None]), [1.5, None]),
        (pandas.DataFrame([[1, 2]]), [{"0": 1, "1": 2}]),
    ):
        assert json.loads(json.dumps(jsonable(value, "x"))) == form
    with pytest.raises(ValueError, match="two columns of one name"):
        jsonable(pandas.DataFrame([[1, 2]], columns=["a", "a"]), "x")
    with pytest.raises(TypeError, match="keys of JSON are text"):
        jsonable(pandas.DataFrame([[1]], columns=pandas.MultiIndex.from_tuples([("a", "b")])), "x")


def test_times_that_are_missing_in_results() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [1, 2], "t": pandas.to_datetime(["2026-07-04", None])})
    rows = [{"n": 1, "t": "2026-07-04T00:00:00"}, {"n": 2, "t": None}]

    def give():  # type: ignore[no-untyped-def]
        return None

    for hint in (None, list[dict[str, Any]], Any):
        give.__annotations__ = {"return": hint} if hint else {}
        write = tool(give).schema.write
        assert json.loads(write(frame.to_dict("records"))) == rows
        assert json.loads(write(row._asdict() for row in frame.itertuples(index=False))) == rows
    inner = collections.OrderedDict({pandas.NaT: pandas.NaT})
    assert json.loads(write({"t": (pandas.NaT, inner)})) == {"t": [None, {"None": None}]}
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="contains itself"):
        write(endless)


def test_defaults_that_json_can_not_express() -> None:
    class Odd:
        def __iter__(self) -> Any:
            raise RuntimeError("not now")

    def take(x: bytes = b"\xff", y: Any = Odd()) -> None: ...  # noqa: B008

    assert tool(take).documentation.startswith(
        "async def take(\n    x: str = ...,  # bytes as UTF-8 text\n    y=...,\n"
    )


def test_hints_of_arrays_and_tables() -> None:
    numpy, pandas = pytest.importorskip("numpy"), pytest.importorskip("pandas")

    day = pandas.Timestamp("2026-07-04")
    integer: Any = numpy.int64

    def double(x, *, table=None, at=day, many=()):  # type: ignore[no-untyped-def]
        assert isinstance(x, numpy.ndarray)
        return {"x": pandas.Series(x * 2), "n": 0 if table is None else len(table), "at": at, "many": many}

    double.__annotations__ = {
        "x": numpy.typing.NDArray[numpy.float64],
        "table": pandas.DataFrame | None,
        "at": pandas.Timestamp,
        "many": Annotated[list[integer], "numbers"],
        "return": dict[str, Any],
    }
    made = tool(double)
    signature = "(x: list, *, table: list[dict] | None = None, at: str = '2026-07-04T00:00:00', many: list[int] = [])"
    assert inspect.cleandoc(made.sync_documentation).startswith("def double(\n    x: list,\n")
    assert made._text.signature == f"double{signature} -> dict"
    positional, named = made.schema.bind({"x": [1, 2.5], "table": [{"a": 1}], "many": [3]})
    result = json.loads(made.schema.write(made.function(*positional, **named)))
    assert result == {"x": [2.0, 5.0], "n": 1, "at": "2026-07-04T00:00:00", "many": [3]}
    with pytest.raises(ValueError, match="could not convert string to float: 'a'; it is \\['a'\\]"):
        made.schema.bind({"x": ["a"]})


def test_a_class_that_json_can_not_express_is_named() -> None:
    class Odd: ...

    def take(x, y=Odd()):  # type: ignore[no-untyped-def]  # noqa: B008
        return x

    assert tool(take).documentation.startswith("async def take(x, y=...):")
    take.__annotations__ = {"x": Odd}
    with pytest.raises(BadTool, match=r"Unable to generate pydantic-core schema for <class '[^']*Odd'>\nadvice"):
        _ = tool(take).schema
    for hint, shown in (
        (Callable[[int], int], "Callable[[int], int]"),
        (list[slice], "list[slice]"),
        (type, "type"),
        (type[int], "type[int]"),
    ):
        for where, what in (("y", "the parameter 'y'"), ("return", "the result")):
            take.__annotations__ = {"x": int, where: hint}
            with pytest.raises(BadTool, match=re.escape(f"JSON can't express the hint of {what}, ") + ".*") as raised:
                _ = tool(take).schema
            assert shown in str(raised.value)


def test_a_value_that_its_class_refuses_has_its_place() -> None:
    numpy = pytest.importorskip("numpy")

    def take(x, y=0):  # type: ignore[no-untyped-def]
        return x

    integer: Any = numpy.int8
    take.__annotations__ = {"x": list[integer]}
    for value in (300, -129, 2**70):
        with pytest.raises(ValueError, match=rf"^x\[1\]: .*; it is {value}$"):
            tool(take).schema.bind({"x": [1, value]})
