"""JSON Schemas in words: types as Python writes them, and lists of fields with what is said about them.

The schemas come from outside and may be wrong or recursive. What is not understood is left out, and all that is made
here is bounded.
"""

import keyword

PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "array": "list", "object": "dict"}
DEEPEST = 4  # Fields within fields, and types within types.
MOST_OPTIONS = 8
MOST_LINES = 400
LONGEST = 80  # Characters of a literal type or a default.
UNKNOWN = "Any"
NONE = object()  # No default.


def part(schema, key, kind):
    """What `schema` has under `key`, or an empty one if that is not a `kind`."""
    found = schema.get(key) if isinstance(schema, dict) else None
    return found if isinstance(found, kind) else kind()


def resolve(schema, root):
    """The schema that a reference stands for; `{}` if there is none."""
    for _ in range(DEEPEST):
        reference, only = part(schema, "$ref", str), part(schema, "allOf", list)
        if reference.startswith("#"):
            schema = root
            for key in reference.split("/")[1:]:
                schema = schema.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(schema, dict) else None
        elif len(only) == 1 and "type" not in schema and "properties" not in schema:
            schema = only[0]
    return schema if isinstance(schema, dict) else {}


def type_of(schema, root, depth=DEEPEST):
    """The type of what `schema` describes, such as `list[str] | None`."""
    schema = resolve(schema, root)
    values = [schema["const"]] if "const" in schema else part(schema, "enum", list)
    options = part(schema, "anyOf", list) or part(schema, "oneOf", list)
    if values and len(values) <= MOST_OPTIONS and not any(isinstance(value, (dict, list, float)) for value in values):
        literal = "Literal[%s]" % ", ".join(map(repr, values))
        if len(literal) <= LONGEST:
            return literal
    if options and depth:
        return _union([type_of(option, root, depth - 1) for option in options[:MOST_OPTIONS]], options)
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return _union([_plain(kind, schema, root, depth) for kind in kinds[:MOST_OPTIONS]], kinds)


def _union(types, options):
    types = list(dict.fromkeys(types))
    if UNKNOWN in types or not types:
        return UNKNOWN
    return " | ".join(types + ["..."] * (len(options) > MOST_OPTIONS))


def _plain(kind, schema, root, depth):
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "items" in schema else ""
    name = PLAIN.get(kind, UNKNOWN) if isinstance(kind, str) else UNKNOWN
    if name == "list" and depth and isinstance(schema.get("items"), dict):
        within = type_of(schema["items"], root, depth - 1)
        return name if within == UNKNOWN else "list[%s]" % within
    if name == "dict" and depth and "properties" not in schema and part(schema, "additionalProperties", dict):
        within = type_of(schema["additionalProperties"], root, depth - 1)
        return name if within == UNKNOWN else "dict[str, %s]" % within
    return name


class Field:
    """One property of an object. Its `default` is `NONE` if it must be given, and `...` if the schema does not tell."""

    def __init__(self, name, schema, required, root):
        self.name, self.schema, self.type = name, schema, type_of(schema, root)
        meant = resolve(schema, root)
        self.description = part(schema, "description", str) or part(meant, "description", str)
        self.default = NONE
        if not required:
            self.default = schema["default"] if isinstance(schema, dict) and "default" in schema else meant.get("default", ...)

    def __str__(self):
        """As a signature has it."""
        if self.default is NONE:
            return self.name + self.typed
        return "%s%s%s%s" % (self.name, self.typed, " = " if self.typed else "=", self.shown_default)

    @property
    def typed(self):
        return "" if self.type == UNKNOWN else ": " + self.type

    @property
    def shown_default(self):
        shown = "..." if self.default is ... else repr(self.default)
        return shown if len(shown) <= LONGEST else "..."


def is_nameable(name):
    """Whether a program can write this name."""
    return name.isidentifier() and not keyword.iskeyword(name)


def fields(owner, root):
    """The properties of an object."""
    required = part(owner, "required", list)
    return [Field(name, schema, name in required, root) for name, schema in part(owner, "properties", dict).items()]


def takes_object(schema, root, depth=DEEPEST):
    """Whether a dict may be a value of what `schema` describes, by its type alone."""
    if schema is False:
        return False
    schema = resolve(schema, root)
    values = [schema["const"]] if "const" in schema else part(schema, "enum", list)
    if values:
        return any(isinstance(value, dict) for value in values)
    options = part(schema, "anyOf", list) or part(schema, "oneOf", list)
    if options and depth:
        return any(takes_object(option, root, depth - 1) for option in options[:MOST_OPTIONS])
    kinds = schema.get("type", "object")
    return "object" in kinds if isinstance(kinds, list) else kinds == "object"


def describe_fields(schema, root, is_result, lines, depth=1):
    """Add lines on the fields of what `schema` describes, or of what that is made of. `is_result`: nobody has to give
    these, so it does not matter which may be missing."""
    indent = "    " * depth
    for field in fields(_core(schema, root), root):
        if len(lines) >= MOST_LINES:
            if lines[-1] != "...":
                lines.append("...")
            return
        name = field.name if is_nameable(field.name) else repr(field.name)
        line = indent + name + field.typed
        if not is_result and field.default is not NONE:
            line += " (optional)" if field.default is ... else " (default: %s)" % field.shown_default
        lines.append(line)
        lines += [indent + "    " + text.strip() for text in field.description.splitlines() if text.strip()]
        if depth < DEEPEST:
            describe_fields(field.schema, root, is_result, lines, depth + 1)


def _core(schema, root):
    """The object that a list, a dict, or an optional value is made of."""
    for _ in range(2 * DEEPEST):
        schema = resolve(schema, root)
        options = [one for one in part(schema, "anyOf", list) + part(schema, "oneOf", list) if part(one, "type", str) != "null"]
        if part(schema, "properties", dict):
            return schema
        inner = options[0] if len(options) == 1 else part(schema, "items", dict) or part(schema, "additionalProperties", dict)
        if not inner:
            return {}
        schema = inner
    return {}


def words_of(schema):
    """The names and descriptions of all fields in a schema, in no order."""
    found, todo = [], [schema]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            found += part(one, "properties", dict)
            found += (part(one, "description", str), part(one, "title", str))
            todo += one.values()
        elif isinstance(one, list):
            todo += one
    return " ".join(found)
