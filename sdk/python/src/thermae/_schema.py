"""Checks a tool's arguments and results by its hints. This is the only module that imports pydantic."""

import functools
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pydantic
import pydantic_core

from thermae.errors import BadTool

_KINDS: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "positional_only",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional_or_keyword",
    inspect.Parameter.KEYWORD_ONLY: "keyword_only",
}


@dataclass(frozen=True)
class Schema:
    """How one tool's arguments and results are checked.

    Attributes:
        arguments: JSON Schema of the arguments.
        parameters: The parameters as a job declares them. None if only `arguments` tells them.
        result: JSON Schema of the result.
        signature: The signature, for the documentation.
    """

    arguments: dict[str, Any]
    parameters: list[dict[str, Any]] | None
    result: dict[str, Any]
    signature: str
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
            return cls(given, None, {}, "(**arguments)", (), lambda arguments: arguments, _write_anything)
        try:
            signature = _signature(function)
            checker = pydantic.TypeAdapter[dict[str, Any]](cast("Any", _by_keyword(signature)))
            arguments = _documented(_finite(checker.json_schema()), inspect.getdoc(function) or "")
            result, write = _result(signature.return_annotation)
        except (
            pydantic.errors.PydanticUserError,
            pydantic_core.SchemaError,
            NameError,
            TypeError,
            ValueError,
        ) as error:
            raise BadTool(f"the tool {name!r}: {_first_line(error)}") from error
        if any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
            arguments.setdefault("additionalProperties", True)
        parameters = _parameters(signature, arguments)
        positional = tuple(p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY)
        return cls(arguments, parameters, result, str(signature), positional, checker.validate_python, write)

    def bind(self, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call, checked and coerced to the hints: by position, and by name.

        Raises:
            ValueError: They don't match the hints. The text says which one, for the code that called.
        """
        try:
            checked = dict(self._check(arguments))
        except pydantic.ValidationError as error:
            wrong = (f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in error.errors())
            raise ArgumentsError("; ".join(wrong)) from None
        return [checked.pop(name) for name in self._positional], checked

    def write(self, result: Any) -> bytes:
        """The result as JSON, by the return hint.

        Raises:
            TypeError: JSON can't express it.
        """
        try:
            return self._write(result)
        except (pydantic_core.PydanticSerializationError, ValueError) as error:
            raise TypeError(f"the result can't be written as JSON: {_first_line(error)}") from error


class ArgumentsError(ValueError):
    """The arguments of a call don't match the tool's hints."""


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature with hints as types. What a `partial` has bound by name is not a parameter any more."""
    bound: set[str] = set(cast("Any", function).keywords) if isinstance(function, functools.partial) else set()
    signature = inspect.signature(cast("Any", function), eval_str=True)
    kept = [p for p in signature.parameters.values() if p.name not in bound]
    for parameter in kept:
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise TypeError(f"*{parameter.name} can't be a parameter of a tool: arguments come by name")
    return signature.replace(parameters=kept)


def _by_keyword(signature: inspect.Signature) -> Callable[..., Any]:
    """A function that takes all these parameters by name, and gives them back."""

    def given(**arguments: Any) -> dict[str, Any]:
        return arguments

    parameters = [p.replace(kind=p.KEYWORD_ONLY) if p.kind in _KINDS else p for p in signature.parameters.values()]
    given.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    given.__annotations__ = {p.name: p.annotation for p in parameters if p.annotation is not p.empty}
    return given


def _parameters(signature: inspect.Signature, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters as a job declares them. The schema has them in their order, and an alias as their names."""
    named = [p for p in signature.parameters.values() if p.kind in _KINDS]
    required = arguments.get("required", ())
    return [
        {"name": name, "kind": _KINDS[parameter.kind], "required": name in required}
        for parameter, name in zip(named, arguments["properties"], strict=True)
    ]


def _result(hint: Any) -> tuple[dict[str, Any], Callable[[Any], bytes]]:
    if hint is inspect.Signature.empty or hint is Any:
        return {}, _write_anything
    adapter = pydantic.TypeAdapter[Any](hint)
    return adapter.json_schema(mode="serialization"), lambda value: adapter.dump_json(value, warnings=False)


def _write_anything(value: Any) -> bytes:
    return pydantic_core.to_json(value, inf_nan_mode="null")


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
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
