"""The text that tells a model what a tool takes and gives, made from the tool's JSON Schemas.

The package shows it as `Tool.documentation`. The runner puts this very file into every sandbox, where `help(tool)` and
`tools.describe(name)` show the same text. So it stands alone, and runs on Python 3.9.

The schemas come from outside and may be wrong or recursive. What is not understood is left out, and all that is made
here is bounded.
"""

from __future__ import annotations

import keyword

TYPE_CHECKING = False
if TYPE_CHECKING:  # A zygote that loads `typing` would make every run slower.
    from collections.abc import Iterable, Iterator
    from typing import Any, cast
else:

    def cast(_: object, value: object) -> object:
        return value


PLAIN = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "array": "list",
    "object": "dict",
}
"""Types of JSON Schema as Python writes them."""

FORMATS = {
    "date": "a date, such as '2026-07-04'",
    "date-time": "a date and time, such as '2026-07-04T09:30:00Z'",
    "time": "a time, such as '09:30:00'",
    "duration": "a duration, such as 'P1DT2H30M'",
    "uuid": "a UUID, such as '0b9f2a4e-6c1d-4e8a-9a57-3f0c8d21b6e4'",
    "uuid4": "a UUID, such as '0b9f2a4e-6c1d-4e8a-9a57-3f0c8d21b6e4'",
    "decimal": "a decimal number, such as '12.50'",
    "complex": "a complex number, such as '1+2j'",
    "binary": "bytes as UTF-8 text",
    "base64": "bytes in base64, such as 'YWJj'",
    "base64url": "bytes in base64url, such as 'YWJj'",
    "path": "a path",
    "file-path": "the path of a file",
    "directory-path": "the path of a folder",
    "email": "an e-mail address, such as 'ada@example.org'",
    "hostname": "a host's name, such as 'example.org'",
    "uri": "a URL, such as 'https://example.org/a'",
    "ipv4": "an IP address, such as '192.0.2.1'",
    "ipv6": "an IP address, such as '2001:db8::1'",
    "ipvanyaddress": "an IP address, such as '192.0.2.1'",
    "ipv4network": "an IP network, such as '192.0.2.0/24'",
    "ipvanynetwork": "an IP network, such as '192.0.2.0/24'",
    "json-string": "JSON text, such as '[1]'",
}
"""Formats of strings, in words."""

RULES = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "above {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "below {}"),
    ("multipleOf", "a multiple of {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("minProperties", "at least {} keys"),
    ("maxProperties", "at most {} keys"),
)
"""Rules about a value that have one number, in words."""

DEEPEST = 4
"""Types within types, and references that are followed to their end."""

MOST_OPTIONS = 8
"""Types of a union."""

MOST_SHAPES = 64
"""Dicts whose keys are told."""

MOST_LINES = 400
"""Lines about these."""

LONGEST = 80
"""Characters of a default."""

LONGEST_CHOICE = 2000
"""Characters of the values that are allowed."""

UNKNOWN = "Any"
"""The type of what nobody knows."""

NONE = object()
"""No default."""

TAKEN = frozenset(("Any", "Literal", "TypedDict", "NotRequired", *PLAIN.values()))
"""Names that mean something in the text."""


def text_in(schema: Any, key: str) -> str:
    """The text that `schema` has under `key`; empty if there is none."""
    found = as_dict(schema).get(key)
    return found if isinstance(found, str) else ""


def list_in(schema: Any, key: str) -> list[Any]:
    """The list that `schema` has under `key`; empty if there is none."""
    return as_list(as_dict(schema).get(key))


def dict_in(schema: Any, key: str) -> dict[str, Any]:
    """The dict that `schema` has under `key`; empty if there is none."""
    return as_dict(as_dict(schema).get(key))


def as_dict(value: Any) -> dict[str, Any]:
    """The value if it is a dict, or an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, or an empty one."""
    return cast("Any", value) if isinstance(value, list) else []


def is_nameable(name: str) -> bool:
    """Whether a program can write this name, and means it."""
    return (
        name.isidentifier()
        and not keyword.iskeyword(name)
        and name != "__debug__"
        and (name.isascii() or _is_normal(name))
    )


def _is_normal(name: str) -> bool:
    """Whether Python takes the name for itself: it normalizes names."""
    import unicodedata

    return unicodedata.normalize("NFKC", name) == name


def name_in_code(name: str) -> str:
    """The name by which a program calls the tool `name`. The worker makes it by the same rule."""
    made = "".join(one if ("_" + one).isidentifier() else "_" for one in name)
    made = made if made[:1].isidentifier() else "_" + made
    return made + "_" if keyword.iskeyword(made) else made


def target(schema: Any, root: Any) -> dict[str, Any]:
    """The schema that a reference stands for; `{}` if there is none."""
    for _ in range(DEEPEST):
        reference, only = text_in(schema, "$ref"), list_in(schema, "allOf")
        if reference.startswith("#"):
            schema = root
            for key in reference.split("/")[1:]:
                schema = dict_in(schema, key.replace("~1", "/").replace("~0", "~"))
        elif len(only) == 1 and "type" not in schema and "properties" not in schema:
            schema = only[0]
    return as_dict(schema)


def parameters_of(schema: Any, declared: list[dict[str, Any]] | None) -> tuple[list[dict[str, Any]], bool]:
    """The parameters of a tool, and whether there may be other arguments. The worker reads a schema so, too.

    Args:
        schema: The JSON Schema of the arguments, which lists the parameters if they are not declared.
        declared: The parameters as a job declares them.
    """
    meant = target(schema, schema)
    required = list_in(meant, "required")
    listed = [{"name": name, "required": name in required} for name in dict_in(meant, "properties")]
    elsewhere = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas")
    if "additionalProperties" in meant:
        others = meant["additionalProperties"] is not False
    else:
        others = declared is None and ("properties" not in meant or any(key in meant for key in elsewhere))
    return listed if declared is None else declared, others or bool(dict_in(meant, "patternProperties"))


def by_place(parameters: Iterable[dict[str, Any]]) -> list[str]:
    """The names of the parameters that can be given by their place. Python wants those without a default first."""
    names: list[str] = []
    optional = False
    for one in parameters:
        required = one.get("required", False)
        optional = optional or not required
        if one.get("kind") == "keyword_only" or not is_nameable(one["name"]) or (optional and required):
            break
        names.append(one["name"])
    return names


def by_place_only(parameters: Iterable[dict[str, Any]]) -> int:
    """How many parameters can't be given by their names."""
    kinds = [one.get("kind") for one in parameters]
    return kinds[: len(by_place(parameters))].count("positional_only")


class Field:
    """A parameter, or a key of a dict.

    Attributes:
        name: Its name.
        type: Its type, as the text has it.
        default: `NONE` if it must be given, and `...` if the schema does not tell.
        notes: What to know about its values.
        description: What the schema says about it.
    """

    def __init__(self, name: str, schema: Any, required: bool, shapes: Shapes) -> None:
        self.name = name
        meant = shapes.resolve(schema)
        self.type = shapes.type_of(schema, name)
        self.notes = shapes.notes_of(schema)
        # What a dict is stands where its keys are told.
        said = [one for one in (schema, meant) if not (one is meant and shapes.is_shape(meant))]
        self.description = next(filter(None, (text_in(one, "description") for one in said)), "")
        given = as_dict(schema)
        self.default: Any = NONE if required else given.get("default", meant.get("default", ...))

    @property
    def typed(self) -> str:
        """The name, with its type if that is known."""
        return self.name if self.type == UNKNOWN else f"{self.name}: {self.type}"

    @property
    def shown_default(self) -> str:
        """The default as Python writes it."""
        shown = "..." if self.default is ... else repr(self.default)
        return shown if len(shown) <= LONGEST and "inf" not in shown else "..."

    def __str__(self) -> str:
        """As a signature has it."""
        if self.default is NONE:
            return self.typed
        return f"{self.typed}{'=' if self.type == UNKNOWN else ' = '}{self.shown_default}"


class Shapes:
    """The types of one schema, and the dicts that they are made of, which get names.

    Args:
        root: The schema.
        named: The dicts that have a name in the text, of this schema and of others.
    """

    def __init__(self, root: Any, named: Names) -> None:
        self.root = root
        self._named = named
        self._path: list[int] = []
        self._merged: dict[int, dict[str, Any]] = {}

    def resolve(self, schema: Any, depth: int = DEEPEST) -> dict[str, Any]:
        """The schema that a reference stands for, with what the parts of an `allOf` add to it."""
        found = target(schema, self.root)
        parts = list_in(found, "allOf")[:MOST_OPTIONS]
        if not parts or depth == 0:
            return found
        if id(found) not in self._merged:
            merged: dict[str, Any] = {}
            self._merged[id(found)] = merged
            own = {key: value for key, value in found.items() if key != "allOf"}
            for one in (*(self.resolve(one, depth - 1) for one in parts), own):
                properties = {**dict_in(merged, "properties"), **dict_in(one, "properties")}
                required = [*list_in(merged, "required"), *list_in(one, "required")]
                merged.update(one)
                merged.update({"properties": properties, "required": required} if properties else {})
        return self._merged[id(found)]

    def is_shape(self, meant: dict[str, Any]) -> bool:
        """Whether a schema is one of dicts whose keys are told."""
        kinds = list_in(meant, "type") or [meant.get("type", "object")]
        return bool(dict_in(meant, "properties")) and "object" in kinds

    def type_of(self, schema: Any, hint: str, depth: int = DEEPEST) -> str:
        """The type of what `schema` describes, such as `list[str] | None`. `hint` is a name for a dict without one."""
        meant = self.resolve(schema)
        if id(meant) in self._path:
            return self._named.name(meant, self, hint) or UNKNOWN
        self._path.append(id(meant))
        try:
            return self._type_of(meant, hint, depth)
        finally:
            self._path.pop()

    def _type_of(self, meant: dict[str, Any], hint: str, depth: int) -> str:
        values = allowed(meant)
        if values:
            if not any(isinstance(value, (dict, list, float)) for value in values):
                literal = f"Literal[{', '.join(map(repr, values))}]"
                if len(literal) <= LONGEST_CHOICE:
                    return literal
            return _union([_kind(value) for value in values])
        options = (list_in(meant, "anyOf") or list_in(meant, "oneOf"))[:MOST_OPTIONS]
        kinds = list_in(meant, "type") or [meant.get("type")]
        own = _union([self._plain(kind, meant, hint, depth) for kind in kinds[:MOST_OPTIONS]])
        if options and depth:
            found = _union([self.type_of(option, hint, depth - 1) for option in options])
            # Options without types only say more about those of the schema itself.
            return own if found == UNKNOWN else found
        return _union([own, "None"]) if meant.get("nullable") is True else own

    def _plain(self, kind: Any, meant: dict[str, Any], hint: str, depth: int) -> str:
        if kind is None:
            kind = "object" if "properties" in meant else "array" if "items" in meant else ""
        name = PLAIN.get(kind, UNKNOWN) if isinstance(kind, str) else UNKNOWN
        if name == "list" and depth:
            first = list_in(meant, "prefixItems")
            inner = first[:MOST_OPTIONS] + [meant[key] for key in ("items",) if isinstance(meant.get(key), dict)]
            within = _union([self.type_of(one, hint, depth - 1) for one in inner])
            return name if within == UNKNOWN else f"list[{within}]"
        if name == "dict" and depth:
            if self.is_shape(meant):
                return self._named.name(meant, self, hint) or name
            within = _union([self.type_of(one, hint, depth - 1) for one in _others(meant)])
            keys = self.type_of(dict_in(meant, "propertyNames"), hint, 0)
            keys = keys if keys.startswith("Literal[") else "str"
            return name if within == UNKNOWN else f"dict[{keys}, {within}]"
        return name

    def notes_of(self, schema: Any, depth: int = DEEPEST) -> list[str]:
        """What to know about the values that `schema` describes, other than their type."""
        meant = self.resolve(schema)
        values = allowed(meant)
        if values:
            literal = not any(isinstance(value, (dict, list, float)) for value in values)
            shown = ", ".join(map(repr, values))
            if literal and len(shown) + len("Literal[]") <= LONGEST_CHOICE:
                return []
            return [f"one of {shown}" if len(shown) <= LONGEST_CHOICE else f"one of {shown[:LONGEST_CHOICE]} …"]
        examples = list_in(meant, "examples")
        kind = "json-string" if meant.get("contentMediaType") == "application/json" else text_in(meant, "format")
        notes = [FORMATS.get(kind, f"of the format {kind}")] if kind else []
        if examples:
            notes = [note.partition(", such as ")[0] for note in notes]
        notes += self._rules(meant)
        if (pattern := text_in(meant, "pattern")) and text_in(meant, "format") != "decimal":
            notes.append(f"matches {pattern}")
        if meant.get("uniqueItems") is True:
            notes.append("no two equal")
        if depth:
            notes += self._inner_notes(meant, depth - 1)
        if examples:
            notes.append(f"such as {examples[0]!r}")
        return notes

    def _rules(self, meant: dict[str, Any]) -> Iterator[str]:
        for key, words in RULES:
            value = meant.get(key)
            # The items of a tuple are told one by one. That there are at least none is no rule.
            idle = (
                "prefixItems" in meant if key.endswith("Items") else key in ("minLength", "minProperties") and not value
            )
            if isinstance(value, (int, float)) and not isinstance(value, bool) and not idle:
                yield words.format(value)

    def _inner_notes(self, meant: dict[str, Any], depth: int) -> Iterator[str]:
        options = (list_in(meant, "anyOf") or list_in(meant, "oneOf"))[:MOST_OPTIONS]
        options = [one for one in options if self.resolve(one).get("type") != "null"]
        for option in options:
            which = f"{self.type_of(option, '', 0)}: " if len(options) > 1 else ""
            if notes := self.notes_of(option, depth):
                yield which + _inner(notes)
        if first := list_in(meant, "prefixItems")[:MOST_OPTIONS]:
            told = [(self.type_of(one, ""), self.notes_of(one, depth)) for one in first]
            yield "in this order: " + ", ".join(
                kind + (f" ({'; '.join(notes)})" if notes else "") for kind, notes in told
            )
        within = (
            ("each", [meant.get("items")]),
            ("each value", _others(meant)),
            ("each key", [meant.get("propertyNames")]),
        )
        for what, schemas in within if not self.is_shape(meant) else ():
            for one in schemas:
                if isinstance(one, dict) and (notes := self.notes_of(one, depth)):
                    yield f"{what}: {_inner(notes)}"

    def closure(self, meant: dict[str, Any]) -> list[Any]:
        """A schema with all that it refers to, but for what must be given."""
        found: list[Any] = [_bare(meant)]
        todo: list[Any] = [meant]
        seen: set[str] = set()
        while todo:
            one = todo.pop()
            todo += [*as_list(one), *as_dict(one).values()]
            reference = text_in(one, "$ref")
            if reference and reference not in seen:
                seen.add(reference)
                todo.append(self.resolve(one))
                found.append(_bare(todo[-1]))
        return found

    def fields(self, owner: dict[str, Any]) -> list[Field]:
        """The keys of a dict."""
        required = list_in(owner, "required")
        return [Field(str(name), one, name in required, self) for name, one in dict_in(owner, "properties").items()]


class Names:
    """The dicts that get a name in the text of one tool.

    Args:
        taken: A name that none of them may have.
    """

    def __init__(self, taken: str) -> None:
        self._taken = set(TAKEN) | {taken}
        self._names: dict[int, str] = {}
        self._found: list[tuple[str, dict[str, Any], Shapes]] = []
        self._alike: dict[str, list[tuple[str, list[Any]]]] = {}

    def name(self, meant: dict[str, Any], shapes: Shapes, hint: str) -> str:
        """The name of a dict; empty if it has none."""
        if not shapes.is_shape(meant) or (id(meant) not in self._names and len(self._found) >= MOST_SHAPES):
            return ""
        if id(meant) not in self._names:
            wanted = _camel(text_in(meant, "title")) or _camel(hint) or "Dict"
            self._names[id(meant)] = self._same(wanted, meant, shapes) or self._new(wanted, meant, shapes)
        return self._names[id(meant)]

    def _same(self, wanted: str, meant: dict[str, Any], shapes: Shapes) -> str:
        """The name of a dict of the other schema that has the same keys."""
        closure = shapes.closure(meant)
        alike = self._alike.setdefault(wanted, [])
        return next((name for name, other in alike if other == closure), "")

    def _new(self, wanted: str, meant: dict[str, Any], shapes: Shapes) -> str:
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}{'_' * wanted[-1].isdigit()}{number}"
        self._taken.add(name)
        self._found.append((name, meant, shapes))
        self._alike[wanted].append((name, shapes.closure(meant)))
        return name

    def lines(self, known: str) -> list[str]:
        """The definitions of all dicts. What is `known` about them is not said again."""
        lines: list[str] = []
        # A definition may find more of them.
        for name, meant, shapes in self._found:
            if len(lines) > MOST_LINES:
                break
            lines += ["", "", *_definition(name, meant, shapes, known, MOST_LINES - len(lines))]
        return lines[2:]


class ToolText:
    """The documentation of one tool.

    Args:
        name: The tool's name in the code.
        description: What it does.
        parameters: Its parameters, as a job declares them. None if `takes` lists them.
        others: Whether there may be other arguments.
        takes: The JSON Schema of its arguments.
        gives: The JSON Schema of its result.
        raw: Whether the code gets the result as JSON text.
    """

    def __init__(
        self,
        name: str,
        description: str,
        parameters: list[dict[str, Any]],
        others: bool,
        takes: Any,
        gives: Any,
        raw: bool,
    ) -> None:
        self._name = name
        self._description = description.strip()
        names = Names(name)
        self._names = names
        shapes = Shapes(takes, names)
        meant = shapes.resolve(takes)
        properties = dict_in(meant, "properties")
        fields = [
            Field(one["name"], properties.get(one["name"]), one.get("required", False), shapes) for one in parameters
        ]
        self.fields = [field for field in fields if is_nameable(field.name)]
        """The parameters that a program can name."""
        self._unnameable = [field for field in fields if not is_nameable(field.name)]
        self.by_place = len(by_place(parameters))
        """How many of them can be given by their place."""
        self.by_place_only = by_place_only(parameters)
        """How many of them can't be given by their name."""
        self.others = "kwargs" if self._unnameable or others else ""
        """The name under which other arguments can be given; empty if there are none."""
        while self.others in [field.name for field in self.fields]:
            self.others += "_"
        within = _union([shapes.type_of(one, "other") for one in _others(meant)])
        self.others_type = UNKNOWN if self._unnameable else within
        """Their type."""
        results = Shapes(gives, names)
        result = results.type_of(gives, f"{name}_result")
        self.returns = "str" if raw else "" if result == UNKNOWN else result
        """The type of the result; empty if nobody knows."""
        about = results.notes_of(gives)
        said = "" if results.is_shape(results.resolve(gives)) else text_in(gives, "description")
        if raw and as_dict(gives):
            about.insert(0, f"the JSON text of {result}")
        self._returned = _note(said, about, self._description)

    @property
    def signature(self) -> str:
        """The signature in one line."""
        return f"{self._name}({', '.join(text for text, _ in self._parameters())}){self._arrow}"

    @property
    def _arrow(self) -> str:
        return f" -> {self.returns}" if self.returns else ""

    def _parameters(self) -> list[tuple[str, list[str]]]:
        """The parameters, and what is said about each."""
        shown = [(str(field), _note(field.description, field.notes, self._description)) for field in self.fields]
        if self.by_place < len(self.fields):
            shown.insert(self.by_place, ("*", []))
        if self.by_place_only:
            shown.insert(self.by_place_only, ("/", []))
        if self.others:
            notes: list[str] = []
            for field in self._unnameable:
                default = "" if field.default is NONE else ", optional"
                about = _note(field.description, field.notes, self._description)
                notes += [f"{field.name!r}: {field.type}{default}; give it as **{{{field.name!r}: ...}}", *about]
            typed = "" if self.others_type == UNKNOWN else f": {self.others_type}"
            shown.append((f"**{self.others}{typed}", notes))
        return shown

    def text(self, blocking: bool) -> str:
        """All of it, as Python. Calls of `blocking` tools are not awaited."""
        function = "def" if blocking else "async def"
        parameters = self._parameters()
        trail = f"  # {' '.join(self._returned)}" if self._returned else ""
        if any(notes for _, notes in parameters):
            lines = [f"{function} {self._name}("]
            for one, notes in parameters:
                lines += _noted(f"    {one},", notes)
            lines.append(f"){self._arrow}:{trail}")
        else:
            lines = [f"{function} {self.signature}:{trail}"]
        lines += _docstring(self._description) or ["    ..."]
        if shapes := self._names.lines(self._description):
            lines = ["# Dicts with these keys. Their names are not defined in the program.", *shapes, "", "", *lines]
        return "\n".join(lines)


def allowed(meant: dict[str, Any]) -> list[Any]:
    """The only values that a schema allows; none if it does not list them."""
    return [meant["const"]] if "const" in meant else list_in(meant, "enum")


def _others(meant: dict[str, Any]) -> list[Any]:
    """The schemas of the values under keys that are not told."""
    found = [*dict_in(meant, "patternProperties").values(), meant.get("additionalProperties")]
    return [as_dict(one) for one in found if isinstance(one, dict)][:MOST_OPTIONS]


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _union(types: list[str]) -> str:
    types = list(dict.fromkeys(one for type_ in types for one in ([type_] if "[" in type_ else type_.split(" | "))))
    if UNKNOWN in types or not types:
        return UNKNOWN
    return " | ".join(types)


def _inner(notes: list[str]) -> str:
    """Notes as a part of another one."""
    if len(notes) > 1 and any(": " in note for note in notes):
        return f"({'; '.join(notes)})"
    return ", ".join(notes)


def _bare(schema: Any, depth: int = 8 * DEEPEST) -> Any:
    """A schema without what differs between an argument and a result of one class: what must be given."""
    if depth == 0:
        return ...
    if isinstance(schema, list):
        return [_bare(one, depth - 1) for one in as_list(schema)]
    if not isinstance(schema, dict):
        return schema
    idle = ("required", "default", "$defs", "definitions", "properties")
    bare = {key: _bare(value, depth - 1) for key, value in as_dict(schema).items() if key not in idle}
    bare["properties"] = {name: _bare(one, depth - 1) for name, one in dict_in(schema, "properties").items()}
    return bare


def _camel(text: str) -> str:
    """A name for a dict, made of words."""
    words = (
        "".join(one if ("_" + one).isidentifier() and one.isascii() else " " for one in text).replace("_", " ").split()
    )
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if is_nameable(name) else ""


def _definition(name: str, meant: dict[str, Any], shapes: Shapes, known: str, most: int) -> list[str]:
    """A dict as a `TypedDict`."""
    fields = shapes.fields(meant)
    plain = all(is_nameable(field.name) and not field.name.startswith("__") for field in fields)
    lines: list[str] = []
    for field in fields:
        if len(lines) >= most:
            lines.append("    # …")
            break
        kind = field.type if field.default is NONE else f"NotRequired[{field.type}]"
        notes = list(field.notes)
        if field.default is not NONE and field.shown_default not in ("...", "None"):
            notes.append(f"default: {field.shown_default}")
        line = f"    {field.name}: {kind}" if plain else f"        {field.name!r}: {kind},"
        lines += _noted(line, _note(field.description, notes, known))
    others = meant.get("additionalProperties")
    if others is True or as_dict(others):
        lines.append(f"{'    ' if plain else '        '}# Other keys: {shapes.type_of(others, 'other')}")
    about = text_in(meant, "description")
    if plain:
        lines = lines if any(not line.lstrip().startswith("#") for line in lines) else [*lines, "    ..."]
        return [f"class {name}(TypedDict):", *_docstring("" if _is_known(about, known) else about), *lines]
    comment = [f"# {line}" for line in _note(about, [], known)]
    return [*comment, f"{name} = TypedDict(", f"    {name!r},", "    {", *lines, "    },", ")"]


def _is_known(text: str, known: str) -> bool:
    return " ".join(text.split()) in " ".join(known.split())


def _note(description: str, notes: list[str], known: str) -> list[str]:
    """The lines of a comment: a description, if it is not `known`, and notes."""
    lines = [] if _is_known(description, known) else [clean(line) for line in description.splitlines() if line.strip()]
    about = clean("; ".join(notes))
    if about and lines:
        lines[-1] += f"{'' if lines[-1][-1] in '.!?:;,' else '.'} {about[0].upper()}{about[1:]}"
    elif about:
        lines = [about]
    return lines


def _noted(line: str, notes: list[str]) -> list[str]:
    """A line of code with its comment: beside it, or above if that has several lines."""
    if len(notes) == 1:
        return [f"{line}  # {notes[0]}"]
    indent = " " * (len(line) - len(line.lstrip()))
    return [*(f"{indent}# {note}" for note in notes), line]


def _docstring(text: str) -> list[str]:
    """The text as a docstring."""
    if not text.strip():
        return []
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    first, *rest = (clean(line, left=True) for line in text.splitlines())
    if rest or first.endswith('"'):
        return [f'    """{first}', *(f"    {line}" if line else "" for line in rest), '    """']
    return [f'    """{first}"""']


def clean(line: str, left: bool = False) -> str:
    """The line without what can't stand in a source file. `left`: with the spaces at its beginning."""
    shown = "".join(one if one.isprintable() else " " if one.isspace() else "\ufffd" for one in line.expandtabs(4))
    return shown.rstrip() if left else " ".join(shown.split())
