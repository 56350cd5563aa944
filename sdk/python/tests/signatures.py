"""Functions with random signatures, and calls that are built from the text that a model reads about them."""

import ast
import dataclasses
import datetime
import enum
import inspect
import io
import ipaddress
import pathlib
import random
import re
import tokenize
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic
from typing_extensions import TypedDict

Maker = Any
"""What makes a hint of other hints. Type checkers know them only as types."""

LIST: Maker = list
DICT: Maker = dict
TUPLE: Maker = tuple

MATCHING = {r"^\d{5}$": "12345", r"^[+-]?\d+$": "7"}
"""A text for each pattern."""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


LEAVES: list[tuple[Any, Any]] = [
    (int, 3),
    (str, "x"),
    (float, 1.5),
    (bool, True),
    (bytes, b"b"),
    (datetime.date, datetime.date(2026, 7, 4)),
    (datetime.datetime, datetime.datetime(2026, 7, 4, 9, 30)),
    (datetime.time, datetime.time(9, 30)),
    (datetime.timedelta, datetime.timedelta(hours=2)),
    (Decimal, Decimal("1.50")),
    (uuid.UUID, uuid.UUID(int=5)),
    (pathlib.Path, pathlib.Path("a/b")),
    (Color, Color.RED),
    (Level, Level.HIGH),
    (Literal["a", "b", 3, None], "b"),
    (Annotated[int, pydantic.Field(ge=5, le=9)], 6),
    (Annotated[float, pydantic.Field(gt=0.5)], 2.0),
    (Annotated[str, pydantic.Field(pattern=r"^\d{5}$", description="A ZIP code.")], "54321"),
    (Annotated[str, pydantic.Field(min_length=3)], "abc"),
    (Annotated[list[int], pydantic.Field(min_length=2)], [1, 2]),
    (pydantic.NaiveDatetime, datetime.datetime(2026, 7, 4)),
    (pydantic.FutureDate, datetime.date(2999, 1, 1)),
    (pydantic.PastDatetime, datetime.datetime(1999, 1, 1)),
    (pydantic.UUID4, uuid.UUID("0b9f2a4e-6c1d-4e8a-9a57-3f0c8d21b6e4")),
    (pydantic.IPvAnyAddress, ipaddress.ip_address("10.0.0.1")),
    (complex, 1j),
    (Annotated[int, pydantic.Field(examples=[12])], 3),
]
"""Hints, and a default of each."""


class Hints:
    """Random hints."""

    def __init__(self, chosen: random.Random) -> None:
        self._chosen = chosen
        self._made = 0

    def hint(self, depth: int = 3) -> tuple[Any, Any]:
        """A hint, and a value of it."""
        chosen = self._chosen
        if depth == 0 or chosen.random() < 0.4:
            return chosen.choice(LEAVES)
        inner, value = self.hint(depth - 1)
        match chosen.randrange(9):
            case 0:
                return LIST[inner], [value]
            case 1:
                return DICT[chosen.choice([str, int, Color, datetime.date]), inner], {}
            case 2:
                return inner | None if not _is_literal(inner) else inner, None if not _is_literal(inner) else value
            case 3:
                return TUPLE[inner, int], (value, 1)
            case 4:
                return TUPLE[inner, ...], (value,)
            case 5:
                kind: Any = chosen.choice([set, frozenset])
                return kind[int], kind()
            case 6:
                return inner | chosen.choice([int, str]) if not _is_literal(inner) else inner, value
            case _:
                return self.shape(inner, value)

    def shape(self, inner: Any, value: Any) -> tuple[Any, Any]:
        """A class with fields, and a value of it."""
        self._made += 1
        name = f"Shape{self._made}"
        match self._chosen.randrange(4):
            case 0:
                made: Any = dataclasses.make_dataclass(name, [("inner", inner), ("n", int, 5)])
                return made, made(value)
            case 1:
                return TypedDict(name, {"inner": inner, "n": int}), {"inner": value, "n": 1}  # type: ignore[operator]
            case 2:
                alias = self._chosen.choice(["the-inner", "class", "inner_", "__x"])
                field = pydantic.Field(validation_alias=alias, serialization_alias=alias, description="What is in it.")
                model = pydantic.create_model(name, inner=(inner, field), n=(int, 5), __doc__="A shape.")
                return model, model.model_validate({alias: value})
            case _:
                model = pydantic.create_model(name, inner=(inner, value), more=(list[Color], []))
                return model, model()

    def function(self, name: str) -> Callable[..., Any]:
        """A function that keeps to its hints if its arguments do: it returns one of them, or nothing."""
        chosen, kinds = self._chosen, inspect.Parameter
        wanted = sorted(chosen.choice("pwk") for _ in range(chosen.randrange(1, 5)))
        order = [kind for kind in "pwk" for one in wanted if one == kind]
        first_default = chosen.randrange(len(order) + 1)
        parameters: list[inspect.Parameter] = []
        for place, kind in enumerate(order):
            hint, value = self.hint()
            default = value if (chosen.random() < 0.5 if kind == "k" else place >= first_default) else kinds.empty
            which = {"p": kinds.POSITIONAL_ONLY, "w": kinds.POSITIONAL_OR_KEYWORD, "k": kinds.KEYWORD_ONLY}[kind]
            parameters.append(kinds(f"a{place}", which, default=default, annotation=hint))
        if chosen.random() < 0.2:
            parameters.append(kinds("more", kinds.VAR_KEYWORD, annotation=int))

        def function(*args: Any, **named: Any) -> Any:
            bound = signature.bind(*args, **named)
            bound.apply_defaults()
            return bound.arguments.get("a0")

        signature = inspect.Signature(parameters, return_annotation=parameters[0].annotation)
        function.__signature__ = signature  # type: ignore[attr-defined]
        function.__name__ = name
        function.__doc__ = chosen.choice([None, "Does it.", 'Has """ and \\ in it.\n\nArgs:\n    a0: The first "one".'])
        return function


def _is_literal(hint: Any) -> bool:
    return bool(hint == Literal["a", "b", 3, None])


class Reading:
    """What a reader takes from the documentation of a tool: its parameters, and values that fit what is said."""

    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        self._notes = _notes(text)
        self._shapes: dict[str, list[tuple[str, ast.expr, str]]] = {}
        for one in tree.body:
            if isinstance(one, ast.ClassDef):
                self._shapes[one.name] = [
                    (field.target.id, field.annotation, self._note(field))
                    for field in one.body
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
                ]
            elif (
                isinstance(one, ast.Assign) and isinstance(one.value, ast.Call) and isinstance(one.targets[0], ast.Name)
            ):
                keys = one.value.args[1]
                assert isinstance(keys, ast.Dict)
                pairs = zip(keys.keys, keys.values, strict=True)
                self._shapes[one.targets[0].id] = [(ast.literal_eval(k), v, self._note(v)) for k, v in pairs if k]
        *_, function = tree.body
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        self.name = function.name
        self.function = function

    def call(self, whole: bool) -> str:
        """A call. `whole`: with the arguments that have a default."""
        args = self.function.args
        by_place = [*args.posonlyargs, *args.args]
        required = len(by_place) - len(args.defaults)
        words = [self._value(one) for place, one in enumerate(by_place) if whole or place < required]
        for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            if whole or default is None:
                words.append(f"{one.arg}={self._value(one)}")
        if whole and args.kwarg:
            words.append(f"more={self.value(args.kwarg.annotation, '')!r}")
        return f"{self.name}({', '.join(words)})"

    def _value(self, one: ast.arg) -> str:
        return repr(self.value(one.annotation, self._note(one)))

    def _note(self, node: ast.expr | ast.stmt | ast.arg) -> str:
        return self._notes.get(node.lineno, "")

    def value(self, hint: ast.expr | None, note: str) -> Any:
        """A value of this type that fits what a comment says about it."""
        match hint:
            case None:
                return 1
            case ast.Constant(value=None):
                return None
            case ast.BinOp():
                kinds = [one for one in _options(hint) if ast.unparse(one) != "None"]
                which = ast.unparse(kinds[0]).partition("[")[0]
                return self.value(kinds[0], note if len(kinds) == 1 else _said(note, which))
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
                return ast.literal_eval(inner.elts[0] if isinstance(inner, ast.Tuple) else inner)
            case ast.Subscript(value=ast.Name(id="NotRequired"), slice=inner):
                return self.value(inner, note)
            case ast.Subscript(value=ast.Name(id="list"), slice=inner):
                if told := _said(note, "in this order"):
                    return [self.value(ast.parse(kind, mode="eval").body, about) for kind, about in _in_order(told)]
                count = re.search(r"at least (\d+) items", note.partition("each: ")[0], re.IGNORECASE)
                return [self.value(inner, _said(note, "each"))] * (int(count[1]) if count else 1)
            case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[keys, inner])):
                return {self.value(keys, _said(note, "each key")): self.value(inner, _said(note, "each value"))}
            case ast.Name(id=name) if name in self._shapes:
                return {key: self.value(kind, about) for key, kind, about in self._shapes[name]}
            case ast.Name(id="str"):
                return self._text(note)
            case ast.Name(id="int" | "float" as name):
                least = re.search(r"(?:at least|above) ([\d.]+)(?! items)", note, re.IGNORECASE)
                return (int if name == "int" else float)(float(least[1]) + 1 if least else 2)
            case ast.Name(id="bool"):
                return True
            case ast.Name(id="list"):
                return []
            case ast.Name(id="dict"):
                return {}
        raise AssertionError(f"nobody knows how to make {ast.unparse(hint)}")

    def _text(self, note: str) -> str:
        if told := re.search(r"such as ('[^']*')", note):
            return str(ast.literal_eval(told[1]))
        if told := re.search(r"one of ('[^']*')", note):
            return str(ast.literal_eval(told[1]))
        if told := re.search(r"matches (\S+?)(?:[;,)]|$)", note, re.IGNORECASE):
            return MATCHING[told[1]]
        least = re.search(r"at least (\d+) characters", note, re.IGNORECASE)
        return "x" * (int(least[1]) if least else 1)


def _options(hint: ast.expr) -> list[ast.expr]:
    if isinstance(hint, ast.BinOp):
        return [*_options(hint.left), *_options(hint.right)]
    return [hint]


def _parts(told: str, mark: str) -> list[str]:
    """The parts between the marks that are in no brackets."""
    found: list[str] = []
    depth, start = 0, 0
    for place, one in enumerate(told + mark):
        depth += (one in "([{") - (one in ")]}")
        if one == mark and depth == 0:
            found.append(told[start:place].strip())
            start = place + 1
    return found


def _said(note: str, what: str) -> str:
    """What a comment says about a part of a value."""
    inner = note[1:-1] if note.startswith("(") and note.endswith(")") else note
    said = (one.partition(": ") for part in _parts(inner, ";") for one in _sentences(part))
    return next((about for head, _, about in said if head.lower() == what.lower()), "")


def _sentences(text: str) -> list[str]:
    """The text, and what follows its first sentence."""
    return [text, *text.split(". ", 1)[1:]]


def _in_order(told: str) -> list[tuple[str, str]]:
    """The types of a tuple, and what is said about each."""
    pairs = (one.partition(" (") for one in _parts(told, ","))
    return [(kind, about.removesuffix(")")) for kind, _, about in pairs]


def _notes(text: str) -> dict[int, str]:
    """The comments of a text, by the line of the code beside or below each."""
    notes: dict[int, str] = {}
    above: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if token.line.lstrip().startswith("#"):
                above.append(token.string[2:])
            else:
                notes[token.start[0]] = token.string[2:]
        elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT) and above:
            notes[token.start[0]] = " ".join(above)
            above = []
    return notes
