"""Hints that pydantic does not know, as JSON has them.

These are arrays, tables and numbers of numpy and pandas, and, before Python 3.12, `typing.TypedDict`. Nothing of numpy
and pandas is imported: a hint brings its class.
"""

import sys
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Required, Union, cast, get_args, get_origin, is_typeddict

import pydantic
import typing_extensions

from thermae._json_forms import name_of

_SCHEMAS: dict[str, dict[str, Any]] = {
    "numpy.ndarray": {"type": "array"},
    "numpy.bool": {"type": "boolean"},
    "numpy.bool_": {"type": "boolean"},
    "numpy.integer": {"type": "integer"},
    "numpy.floating": {"type": "number"},
    "pandas.Series": {"type": "array"},
    "pandas.DataFrame": {"type": "array", "items": {"type": "object"}},
    "pandas.Timestamp": {"type": "string", "format": "date-time"},
}
"""JSON Schemas by the names of classes."""


def known(hint: Any, made: dict[Any, Any] | None = None) -> Any:
    """The hint as pydantic takes it. Arguments become what the hint says.

    Args:
        hint: The hint.
        made: What stands for the `TypedDict`s of the hint around this one, which may refer to themselves.
    """
    made = {} if made is None else made
    origin, args = get_origin(hint), get_args(hint)
    kind: Any = origin or hint
    if isinstance(kind, type) and kind is not type:
        for one in kind.__mro__:
            if (schema := _SCHEMAS.get(name_of(one))) is not None:
                return Annotated[Any, pydantic.BeforeValidator(_maker(kind, args)), pydantic.WithJsonSchema(schema)]
    if sys.version_info < (3, 12) and is_typeddict(hint) and type(hint).__module__ == "typing":
        return _typed_dict(hint, made)
    if origin is Annotated:
        return Annotated[known(args[0], made), *args[1:]]
    if origin in (None, Literal):
        return hint
    inner = tuple(known(one, made) for one in args)
    if inner == args:
        return hint
    generic = cast("Any", Union if origin is types.UnionType else origin)
    return generic[inner[0] if len(inner) == 1 else inner]  # `Unpack` takes no tuple.


def _typed_dict(hint: Any, made: dict[Any, Any]) -> Any:
    """The same with the `TypedDict` of `typing_extensions`: that of `typing` does not keep all that pydantic needs."""
    if hint not in made:
        made[hint] = new = cast("Any", typing_extensions.TypedDict)(hint.__name__, {})
        new.__doc__, new.__module__, new.__qualname__ = hint.__doc__, hint.__module__, hint.__qualname__
        for key, one in typing_extensions.get_type_hints(hint, include_extras=True).items():
            required = key in hint.__required_keys__
            which: Any = get_origin(one)
            if which in (Required, NotRequired):
                required, one = which is Required, get_args(one)[0]
            new.__annotations__[key] = (Required if required else NotRequired)[known(one, made)]
        new.__required_keys__ = frozenset(
            key for key, one in new.__annotations__.items() if get_origin(one) is Required
        )
        new.__optional_keys__ = frozenset(new.__annotations__) - new.__required_keys__
    return made[hint]


def _maker(kind: Any, args: tuple[Any, ...]) -> Callable[[Any], Any]:
    """What makes an array or a table of the value that came."""
    (dtype,) = get_args(args[1]) if len(args) > 1 and get_args(args[1]) else (None,)
    dtype = dtype if isinstance(dtype, type) else None

    def make(value: Any) -> Any:
        try:
            return sys.modules["numpy"].asarray(value, dtype=dtype) if kind.__name__ == "ndarray" else kind(value)
        except (TypeError, OverflowError) as error:
            raise ValueError(str(error)) from error  # This one gets its place in the arguments.

    return make
