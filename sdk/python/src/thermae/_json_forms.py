"""What values of Python are in JSON: the forms in which pydantic writes and reads them, and those of arrays and tables.

The package writes inputs and results with it. The runner puts this very file into every sandbox, which writes the
arguments of tools with it. So it stands alone, runs on Python 3.9, and imports nothing that a value does not bring.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

TYPE_CHECKING = False
if TYPE_CHECKING:  # A zygote that loads `typing` would make every run slower.
    from collections.abc import Callable
    from typing import Any, TypeVar, cast

    T = TypeVar("T")
else:

    def cast(_: object, value: object) -> object:
        return value


DEEPEST = 200
"""Values within values. One that contains itself has no end."""


def written(values: dict[str, Any], write: Callable[[Any], T], what: str) -> T:
    """What `write` makes of values by name, which takes only what JSON has. All others get their forms first.

    Args:
        values: The values.
        write: An encoder of JSON that is strict.
        what: How an error names a value, such as `argument {}`.

    Raises:
        TypeError: JSON has no form for a value. The text says which one, and what to do.
        ValueError: The same, for a value whose type has a form.
    """
    try:
        return write(values)
    except UnicodeEncodeError:
        raise
    except (TypeError, ValueError, RecursionError):
        return write({name: jsonable(value, what.format(name)) for name, value in values.items()})


def jsonable(value: Any, at: str, nan_is_none: bool = False, depth: int = DEEPEST) -> Any:
    """The value, made only of what `json` writes as it is.

    Args:
        value: The value.
        at: What an error calls the value, such as `argument n`.
        nan_is_none: Whether NaN and the infinities are `None`, as in results. Otherwise they are an error.
        depth: How deep it may be.

    Raises:
        TypeError: JSON has no form for it. The text says which part of the value, and what to do.
        ValueError: So has a type that it has in JSON, but not in this case.
    """
    kind = cast("Any", type(value))
    if value is None or kind in (str, bool, int):
        return value
    if depth == 0:
        raise ValueError(f"{at} is nested too deeply, or contains itself")
    if isinstance(value, float):
        if value - value == 0:
            return float(value)
        if nan_is_none:
            return None
        raise ValueError(f"{at} is {value!r}, and JSON has no such number: use None")
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return [jsonable(one, f"{at}[{place}]", nan_is_none, depth - 1) for place, one in enumerate(items)]
    if isinstance(value, dict):
        pairs = cast("Mapping[Any, Any]", value).items()
        items = [
            (_key(key, at, nan_is_none), jsonable(one, _within(at, key), nan_is_none, depth - 1)) for key, one in pairs
        ]
        return once(items, f"{at}: ")
    return jsonable(_form(value, at), at, nan_is_none, depth - 1)


def once(items: list[tuple[Any, Any]], at: str = "") -> dict[Any, Any]:
    """The object with these keys and values. In JSON, `1` and `"1"` are one key, and so are a date and its text.

    Args:
        items: Keys, as `json` takes them, and values.
        at: What an error begins with.

    Raises:
        ValueError: Two keys are one: the second value would take the place of the first.
    """
    names: set[str] = set()
    for key, _ in items:
        name = key if isinstance(key, str) else "null" if key is None else repr(key).lower()
        if name in names:
            raise ValueError(f'{at}the key "{name}" stands twice')
        names.add(name)
    return dict(items)


def _form(value: Any, at: str) -> Any:
    """The form of a value that `json` does not write, or one that is nearer to it."""
    kind = cast("Any", type(value))
    for one in kind.__mro__:
        form = FORMS.get(name_of(one))
        if form is not None:
            try:
                return form(value)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{at} {error}") from None
    if isinstance(value, str):  # Of a class of its own.
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if hasattr(kind, "model_dump"):
        import json  # A model has brought it.

        # `model_dump` itself makes two keys that are one in JSON one.
        json.loads(value.model_dump_json(by_alias=True), object_pairs_hook=lambda items: once(items, f"{at}: "))
        return value.model_dump(mode="json", by_alias=True)
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in kind.__dataclass_fields__}
    if hasattr(kind, "__attrs_attrs__"):
        return {one.name: getattr(value, one.name) for one in kind.__attrs_attrs__}
    if isinstance(value, Mapping):
        return dict(cast("Any", value))
    if isinstance(value, (Set, Sequence, Iterator)):
        return list(cast("Any", value))
    for name in ("to_dicts", "tolist", "to_list"):  # Tables and arrays of other libraries.
        if hasattr(kind, name):
            form = getattr(value, name)()
            if type(form) is not kind:
                return form
    raise TypeError(f"{at} has the type {kind.__name__}, which JSON can't express: use text, numbers, lists or dicts")


def name_of(kind: Any) -> str:
    """The name of a class, and of the package that it is in. Deeper modules differ by version."""
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def _within(at: str, key: Any) -> str:
    plain = isinstance(key, str) and key.isidentifier()
    return f"{at}.{key}" if plain else f"{at}[{key!r}]"


def _key(key: Any, at: str, nan_is_none: bool) -> Any:
    """The key of an object. `json` itself writes numbers, bools and None as text."""
    form: Any = ... if isinstance(key, tuple) else jsonable(key, f"a key of {at}", nan_is_none)
    if form is None or isinstance(form, (str, int, float)):
        return form
    raise TypeError(f"a key of {at} is {key!r}, and keys of JSON are text: use a text such as {_joined(key)!r}")


def _joined(key: Any) -> str:
    return ", ".join(map(str, cast("Iterator[Any]", key))) if isinstance(key, tuple) else str(key)


def _iso(value: Any) -> str:
    text: str = value.isoformat()
    return text[: -len("+00:00")] + "Z" if text.endswith("+00:00") else text


def _duration(value: Any) -> str:
    nanoseconds = ((value.days * 86400 + value.seconds) * 1_000_000 + value.microseconds) * 1000
    return _iso_duration(nanoseconds + getattr(value, "nanoseconds", 0))  # A pandas.Timedelta has them, too.


def _iso_duration(nanoseconds: int) -> str:
    """A time as ISO 8601 has it."""
    seconds, fraction = divmod(abs(nanoseconds), 1_000_000_000)
    days, seconds = divmod(seconds, 86400)
    parts = [(seconds // 3600, "H"), (seconds // 60 % 60, "M")]
    clock = "".join(f"{count}{unit}" for count, unit in parts if count)
    if seconds % 60 or fraction:
        clock += f"{seconds % 60}{f'.{fraction:09}'.rstrip('0').rstrip('.')}S"
    text = f"{days}D" * (days > 0) + (f"T{clock}" if clock else "")
    return f"{'-' if nanoseconds < 0 else ''}P{text or 'T0S'}"


def _utf8(value: Any) -> str:
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        raise ValueError("has bytes that are not UTF-8: pass base64.b64encode(data).decode()") from None


def _complex(value: Any) -> Any:
    raise TypeError("is a complex number, and JSON has none: pass [z.real, z.imag]")


def _array(value: Any) -> Any:
    # In `tolist`, times would become numbers of nanoseconds, those of records, too.
    return value[()] if value.ndim == 0 else list(value) if value.dtype.kind in "mMV" else value.tolist()


def _record(value: Any) -> Any:
    names = value.dtype.names
    return value.item() if names is None else [value[name] for name in names]


def _scalar(value: Any) -> Any:
    item = value.item()
    if type(item) is type(value):
        raise TypeError(f"is a {type(value).__name__}, and JSON has no such number: use float(x) or str(x)")
    return item


def _moment(value: Any) -> str | None:
    text = str(value)
    return None if text == "NaT" else text


def _span(value: Any) -> Any:
    span = value.item()
    if span is None or hasattr(span, "days"):
        return span
    if value.dtype.name == "timedelta64[ns]":
        return _iso_duration(span)
    raise ValueError(f"is {value!r}, and JSON has no such time: use days or seconds")


def _nothing(value: Any) -> None:
    return None


def _column(value: Any) -> list[Any]:
    return [None if _is_missing(one) else one for one in value]


def _is_missing(value: Any) -> bool:
    return type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def _table(value: Any) -> list[dict[Any, Any]]:
    names = list(value.columns)
    if len(set(names)) < len(names):
        raise ValueError("is a table with two columns of one name: rename one of them")
    rows = value.itertuples(index=False, name=None)
    return [dict(zip(names, _column(row))) for row in rows]  # noqa: B905 (Python 3.9)


FORMS: dict[str, Callable[[Any], Any]] = {
    "datetime.datetime": _iso,
    "datetime.date": _iso,
    "datetime.time": _iso,
    "datetime.timedelta": _duration,
    "decimal.Decimal": str,
    "fractions.Fraction": str,
    "uuid.UUID": str,
    "pathlib.PurePath": str,
    "ipaddress._IPAddressBase": str,
    "enum.Enum": lambda value: value.value,
    "re.Pattern": lambda value: value.pattern,
    "builtins.bytes": _utf8,
    "builtins.bytearray": _utf8,
    "builtins.memoryview": _utf8,
    "builtins.complex": _complex,
    "numpy.MaskedConstant": _nothing,
    "numpy.ndarray": _array,
    "numpy.datetime64": _moment,
    "numpy.timedelta64": _span,
    "numpy.void": _record,
    "numpy.generic": _scalar,
    "pandas.DataFrame": _table,
    "pandas.Series": _column,
    "pandas.Index": _column,
    "pandas.ExtensionArray": _column,
    "pandas.Period": str,
    "pandas.NaTType": _nothing,
    "pandas.NAType": _nothing,
}
"""The forms of values, by the names of their classes and of the packages that these are in."""
