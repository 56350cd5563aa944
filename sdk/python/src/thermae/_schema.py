"""Checks a tool's arguments and results by its hints. This is the only module that imports pydantic."""

import functools
import inspect
import itertools
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pydantic
import pydantic_core
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from thermae._hints import known
from thermae._json_forms import jsonable
from thermae.errors import BadTool

_KINDS: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "positional_only",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional_or_keyword",
    inspect.Parameter.KEYWORD_ONLY: "keyword_only",
}


LONGEST_VALUE = 100
"""Characters that an error shows of a value."""

_BAD_HINT = (pydantic.errors.PydanticUserError, pydantic_core.SchemaError, NameError, TypeError, ValueError)
"""What a hint raises that is unknown, or that JSON Schema can't express."""

_KEYS = {"integer": r"^[+-]?\d+$", "number": r"^[+-]?\d+(\.\d+)?$", "boolean": "^(true|false)$"}
"""What the keys of a JSON object look like that are not strings in Python."""


_YEARS = {"past": "1999", "future": "2999"}
"""Years that are examples of them."""


class _Forms(GenerateJsonSchema):
    """JSON Schemas as pydantic makes them, and the forms of decimal numbers, keys, defaults and further arguments."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        if kind != "non-serializable-default":  # It is just not told.
            super().emit_warning(kind, detail)

    def encode_default(self, dft: Any) -> Any:
        try:
            return super().encode_default(dft)
        except Exception as error:  # A default can be of any class.
            try:
                return jsonable(dft, "the default")
            except Exception:
                raise pydantic_core.PydanticSerializationError(str(error)) from error

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(schema, "a class")

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        made = super().decimal_schema(schema)
        for option in made.get("anyOf", [made]):
            if option["type"] == "string":
                option["format"] = "decimal"
        return made

    def complex_schema(self, schema: core_schema.ComplexSchema) -> JsonSchemaValue:
        return {**super().complex_schema(schema), "format": "complex"}

    def date_schema(self, schema: core_schema.DateSchema) -> JsonSchemaValue:
        made = super().date_schema(schema)
        if now := schema.get("now_op"):
            made["examples"] = [_YEARS[now] + "-07-04"]
        return made

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        made = super().datetime_schema(schema)
        now, is_naive = schema.get("now_op"), schema.get("tz_constraint") == "naive"
        if now or is_naive:
            made["examples"] = [f"{_YEARS[now] if now else '2026'}-07-04T09:30:00{'' if is_naive else 'Z'}"]
        return made

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        made = super().dict_schema(schema)
        keys = self.resolve_ref_schema(self.generate_inner(schema["keys_schema"])) if "keys_schema" in schema else {}
        if keys.get("type") in _KEYS:
            made["propertyNames"] = {"pattern": _KEYS[keys["type"]]}
        elif keys.keys() & {"format", "enum", "const"}:
            made.setdefault("propertyNames", keys)
        return made

    def arguments_schema(self, schema: core_schema.ArgumentsSchema) -> JsonSchemaValue:
        made = super().arguments_schema(schema)
        # Each key of an unpacked `TypedDict` is an argument of its own.
        if schema.get("var_kwargs_mode") == "unpacked-typed-dict" and "var_kwargs_schema" in schema:
            more = self.resolve_ref_schema(self.generate_inner(schema["var_kwargs_schema"]))
            made["properties"] = made.get("properties", {}) | more.get("properties", {})
            if required := [*made.get("required", ()), *more.get("required", ())]:
                made["required"] = required
            made["additionalProperties"] = more.get("additionalProperties", False)
        return made


@dataclass(frozen=True)
class Schema:
    """How one tool's arguments and results are checked.

    Attributes:
        arguments: JSON Schema of the arguments.
        parameters: The parameters as a job declares them. None if only `arguments` tells them.
        result: JSON Schema of the result.
    """

    arguments: dict[str, Any]
    parameters: list[dict[str, Any]] | None
    result: dict[str, Any]
    _positional: tuple[str, ...]
    _check: Callable[[dict[str, Any]], dict[str, Any]]
    _write: Callable[[Any], bytes]

    @classmethod
    def of(cls, function: Callable[..., Any], name: str, given: dict[str, Any] | None) -> "Schema":
        """The schema of a function.

        Args:
            function: The function.
            name: The tool's name, for errors.
            given: A ready-made JSON Schema. The arguments are then not coerced.

        Raises:
            BadTool: A hint is unknown, or can't be expressed in JSON Schema.
        """
        if given is not None:
            return cls(given, None, {}, (), lambda arguments: arguments, _write_anything)
        try:
            signature = _signature(function)
        except (NameError, TypeError, ValueError) as error:
            raise BadTool(f"the tool {name!r}: {_first_line(error)}") from error
        try:
            checker = pydantic.TypeAdapter[dict[str, Any]](cast("Any", _by_keyword(signature)))
            arguments = _documented(
                _finite(checker.json_schema(schema_generator=_Forms)), inspect.getdoc(function) or ""
            )
            result, write = _result(signature.return_annotation)
        except _BAD_HINT as error:
            raise BadTool(f"the tool {name!r}: {_bad_hint(signature) or _first_line(error)}") from error
        if any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
            arguments.setdefault("additionalProperties", True)
        parameters = _parameters(signature, arguments)
        positional = tuple(p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY)

        def check(arguments: dict[str, Any]) -> dict[str, Any]:
            # They came as JSON: text may be a date or a decimal number, and a list a set.
            return checker.validate_json(json.dumps(arguments))

        return cls(arguments, parameters, result, positional, check, write)

    def bind(self, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call, checked and coerced to the hints: by position, and by name.

        Raises:
            ValueError: They don't match the hints. The text says which one, for the code that called.
        """
        try:
            checked = dict(self._check(arguments))
        except pydantic.ValidationError as error:
            raise ArgumentsError("; ".join(map(_wrong, error.errors()))) from None
        return [checked.pop(name) for name in self._positional], checked

    def write(self, result: Any) -> bytes:
        """The result as JSON, by the return hint.

        Raises:
            TypeError: JSON can't express it.
        """
        try:
            return self._write(_without_nat(result) if "pandas" in sys.modules else result)
        except (pydantic_core.PydanticSerializationError, ValueError, RecursionError) as error:
            why = _first_line(error)
            try:
                jsonable(result, "result", nan_is_none=True)
            except (TypeError, ValueError) as named:
                why = str(named)  # It says which part.
            raise TypeError(f"the result can't be written as JSON: {why}") from error


def _wrong(error: pydantic_core.ErrorDetails) -> str:
    """Where an argument does not match, why, and what it is if there is one."""
    value = repr(error["input"])
    value = value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}…"
    it_is = "" if error["type"].startswith("missing") else f"; it is {value}"
    place = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in error["loc"]).removeprefix(".")
    return f"{place or 'arguments'}: {error['msg']}{it_is}"


class ArgumentsError(ValueError):
    """The arguments of a call don't match the tool's hints."""


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature with hints as types. What a `partial` has bound by name is not a parameter any more."""
    bound: set[str] = set(cast("Any", function).keywords) if isinstance(function, functools.partial) else set()
    signature = inspect.signature(cast("Any", function), eval_str=True)
    kept = [p for p in signature.parameters.values() if p.name not in bound]
    for parameter in kept:
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise TypeError(f"*{parameter.name} can't be a parameter of a tool: use one that is a list")
    return signature.replace(parameters=kept)


def _by_keyword(signature: inspect.Signature) -> Callable[..., Any]:
    """A function that takes all these parameters by name, and gives them back."""

    def given(**arguments: Any) -> dict[str, Any]:
        return arguments

    hinted = [p.replace(annotation=known(p.annotation)) for p in signature.parameters.values()]
    parameters = [p.replace(kind=p.KEYWORD_ONLY) if p.kind in _KINDS else p for p in hinted]
    given.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    given.__annotations__ = {p.name: p.annotation for p in parameters if p.annotation is not p.empty}
    return given


def _bad_hint(signature: inspect.Signature) -> str | None:
    """Which hint can't be expressed, and why."""
    hints: list[tuple[str, Any, JsonSchemaMode]] = [
        (f"the parameter {p.name!r}", p.annotation, "validation") for p in signature.parameters.values()
    ]
    hints.append(("the result", signature.return_annotation, "serialization"))
    for what, hint, mode in hints:
        try:
            if hint is not inspect.Signature.empty:
                pydantic.TypeAdapter[Any](known(hint)).json_schema(mode=mode, schema_generator=_Forms)
        except _BAD_HINT as error:
            shown = inspect.formatannotation(hint)
            return f"JSON can't express the hint of {what}, {shown}: {_first_line(error)}"
    return None


def _parameters(signature: inspect.Signature, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters as a job declares them. The schema has them in their order, and an alias as their names.

    The keys of an unpacked `TypedDict` come after them.
    """
    kinds = [_KINDS[p.kind] for p in signature.parameters.values() if p.kind in _KINDS]
    required = arguments.get("required", ())
    return [
        {"name": name, "kind": kind, "required": name in required}
        for kind, name in itertools.zip_longest(kinds, arguments["properties"], fillvalue="keyword_only")
    ]


def _result(hint: Any) -> tuple[dict[str, Any], Callable[[Any], bytes]]:
    if hint is inspect.Signature.empty or hint is Any:
        return {}, _write_anything
    adapter = pydantic.TypeAdapter[Any](known(hint))
    schema = adapter.json_schema(mode="serialization", schema_generator=_Forms)
    return schema, lambda value: adapter.dump_json(value, by_alias=True, warnings=False, fallback=_form)


def _write_anything(value: Any) -> bytes:
    return pydantic_core.to_json(value, inf_nan_mode="null", fallback=_form)


def _without_nat(value: Any) -> Any:
    """The value with `None` for the `NaT` of pandas in its lists and dicts: pydantic takes it for a `datetime`."""
    kind = cast("Any", type(value))
    if kind in (str, float, int):  # Most are.
        return value
    if issubclass(kind, dict):
        return {None if _is_nat(key) else key: _without_nat(one) for key, one in value.items()}
    if issubclass(kind, (list, tuple, Iterator)):
        return [_without_nat(one) for one in value]
    return None if _is_nat(value) else value


def _is_nat(value: Any) -> bool:
    return type(value).__name__ == "NaTType"


def _form(value: Any) -> Any:
    """The form of a value that pydantic does not know."""
    return jsonable(value, "the result", nan_is_none=True)


def _finite(schema: Any) -> Any:
    """The schema without defaults that JSON has no number for: NaN and the infinities."""
    if isinstance(schema, list):
        return [_finite(one) for one in schema]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _finite(value)
        for key, value in cast("dict[str, Any]", schema).items()
        if not (key == "default" and isinstance(value, float) and not math.isfinite(value))
    }


def _documented(schema: dict[str, Any], docstring: str) -> dict[str, Any]:
    """The schema with what the docstring's section `Args:` says about each parameter."""
    properties = schema.get("properties", {})
    for name, text in _described(docstring).items():
        if name in properties:
            properties[name].setdefault("description", text)
    return schema


def _described(docstring: str) -> dict[str, str]:
    section = re.search(r"^(?:Args|Arguments|Parameters):[ \t]*\n((?:[ \t]+.*\n?|\s*\n)*)", docstring, re.MULTILINE)
    if section is None:
        return {}
    lines = inspect.cleandoc("\n" + section[1]).splitlines()
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        if start := re.match(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)", line):
            name = start[1]
            found[name] = start[2]
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _first_line(error: BaseException) -> str:
    # What pydantic advises after this is for its own users.
    text = str(error).strip().partition(". Set `arbitrary_types_allowed")[0]
    return text.splitlines()[0] if text else type(error).__name__
