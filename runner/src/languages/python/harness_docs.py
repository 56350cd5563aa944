"""What a program can read about its tools: the object `tools`, `help` and signatures; and how calls bind to these.

Nothing here is read or made before the program asks: most programs never do, and schemas can be large.
"""

import builtins
import functools
import re
import types

from harness_channel import _loads
from tool_text import DEEPEST, MOST_OPTIONS, NONE, UNKNOWN, ToolText, allowed, by_place, by_place_only, dict_in, list_in, target, text_in

COMMON = frozenset("a an and by for from in is of on or the to with".split())
MOST_NAMED = 10  # Names in the text of an error.
ANNOTATIONS = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict, "None": None}


def documents(specs, texts, blocking):
    """The documents of a run's tools by the tools' names in the code. `texts` has two JSON texts for each tool, its
    schemas, or is empty. Calls of `blocking` tools are not awaited."""
    schemas = Schemas(texts)
    return {spec["alias"]: Document(spec, schemas, 2 * place, blocking) for place, spec in enumerate(specs)}


class Schemas:
    """The JSON texts of a run's schemas, which are taken apart at the first question."""

    def __init__(self, texts):
        self.texts = texts

    def read(self, place):
        """One schema; `None` if there is none, or if Python can't read it."""
        if isinstance(self.texts, str):
            self.texts = self.texts.split("\0")
        try:
            return _loads(self.texts[place])
        except (ValueError, RecursionError, IndexError):
            return None


class Text(str):
    """A tool's whole documentation. `input_schema` and `output_schema` are the tool's JSON Schemas, or None."""

    __repr__ = str.__str__


class Type(str):
    """A type or a default in a signature, which shows it as the documentation does."""

    __repr__ = str.__str__


class Document:
    """Documentation of one tool: its `name` in the code, its `signature`, the first line of its description
    (`summary`), the whole `text`, and its JSON Schemas."""

    def __init__(self, spec, schemas, place, blocking):
        self._spec, self._schemas, self._place, self._blocking = spec, schemas, place, blocking
        self._parameters, self._others = spec.get("parameters") or (), spec.get("others", False)
        self.name = spec["alias"]

    def __repr__(self):
        return self.signature + ("\n    " + self.summary if self.summary else "")

    @property
    def description(self):
        return (self._spec.get("description") or "").strip()

    @property
    def summary(self):
        return self.description.partition("\n")[0].strip()

    @functools.cached_property
    def input_schema(self):
        return self._schemas.read(self._place)

    @functools.cached_property
    def output_schema(self):
        return self._schemas.read(self._place + 1)

    @functools.cached_property
    def _by_place(self):
        """The names of the parameters that can be given by their place."""
        return by_place(self._parameters)

    @functools.cached_property
    def _by_place_only(self):
        """How many of these can't be given by their names."""
        return by_place_only(self._parameters)

    @functools.cached_property
    def _names(self):
        """The names of all parameters, and of those that must be given."""
        return (
            {one["name"] for one in self._parameters},
            [one["name"] for one in self._parameters if one.get("required")],
        )

    def bind(self, args, kwargs):
        """The arguments of a call by their names, as Python would bind them to `__signature__`; or one dict of all."""
        if len(args) == 1 and not kwargs and isinstance(args[0], dict) and not self._is_first(args[0]):
            bound = args[0]
            bad = [key for key in bound if not isinstance(key, str)]
            if bad:
                raise TypeError("tool %s: argument names must be str, not %s" % (self.name, type(bad[0]).__name__))
        else:
            places = self._by_place
            if len(args) > len(places):
                takes = "%d positional argument%s" % (len(places), "s" * (len(places) != 1))
                given = "%d %s given" % (len(args), "was" if len(args) == 1 else "were")
                raise TypeError("%s() takes %s but %s (or one dict)" % (self.name, takes, given))
            bound = dict(zip(places, args))
            for key in kwargs:
                if key in bound:
                    raise TypeError("%s() got multiple values for argument %r" % (self.name, key))
                if key in places[: self._by_place_only]:
                    raise TypeError("%s() takes %r by its place, not by name" % (self.name, key))
            bound.update(kwargs)
        names, required = self._names
        missing = [name for name in required if name not in bound]
        if missing:
            raise TypeError("%s() is missing %s" % (self.name, _listed("required argument", missing)))
        if not self._others and not names.issuperset(bound):
            unknown = [name for name in bound if name not in names]
            known = [one["name"] for one in self._parameters]
            known = "it takes %s" % _listed("argument", known) if known else "it takes none"
            raise TypeError("%s() got %s; %s" % (self.name, _listed("unexpected argument", unknown), known))
        return bound

    def _is_first(self, given):
        """Whether a dict that is given alone is the first argument, and not all arguments by their names.

        It is if the first parameter takes a dict, unless only the other reading fits. TypeError if both do.
        """
        first = self._by_place[0] if self._by_place else None
        properties = dict_in(target(self.input_schema, self.input_schema), "properties")
        if first is None or not takes_object(properties.get(first, {}), self.input_schema):
            return False
        names, required = self._names
        by_name = given.keys() >= set(required) and (self._others or given.keys() <= names)
        if by_name and required in ([], [first]):
            raise TypeError(
                "%s(): the dict can be the argument %r or hold all arguments; name the arguments" % (self.name, first)
            )
        return not by_name

    @functools.cached_property
    def _text(self):
        spec = self._spec
        schemas = self.input_schema, self.output_schema
        return ToolText(self.name, self.description, self._parameters, self._others, *schemas, spec.get("raw", False))

    @property
    def signature(self):
        return self._text.signature

    @functools.cached_property
    def __signature__(self):
        from inspect import Parameter, Signature

        def annotation(shown):
            return Parameter.empty if shown in ("", UNKNOWN) else ANNOTATIONS.get(shown, Type(shown))

        text = self._text
        found = []
        for place, field in enumerate(text.fields):
            kind = Parameter.POSITIONAL_OR_KEYWORD if place < text.by_place else Parameter.KEYWORD_ONLY
            kind = Parameter.POSITIONAL_ONLY if place < text.by_place_only else kind
            default = Parameter.empty if field.default is NONE else Type("...") if field.shown_default == "..." else field.default
            found.append(Parameter(field.name, kind, default=default, annotation=annotation(field.type)))
        if text.others:
            found.append(Parameter(text.others, Parameter.VAR_KEYWORD, annotation=annotation(text.others_type)))
        return Signature(found, return_annotation=annotation(text.returns))

    @functools.cached_property
    def text(self):
        text = Text(self._text.text(self._blocking))
        text.input_schema, text.output_schema = self.input_schema, self.output_schema
        return text

    def _rank(self, wanted):
        """How well the tool fits these words: how many of them it has, and how much these count."""
        places = (self.name + " " + self._spec["name"], 8), (self.description, 2), (words_of(self.input_schema), 2)
        found = [(set(_words(text)), weight) for text, weight in places]
        scores = [sum(weight * _likeness(word, words) for words, weight in found) for word in wanted]
        return sum(score > 0 for score in scores), sum(scores)


def takes_object(schema, root, depth=DEEPEST):
    """Whether a dict may be a value of what `schema` describes, by its type alone."""
    if schema is False:
        return False
    schema = target(schema, root)
    values = allowed(schema)
    if values:
        return any(isinstance(value, dict) for value in values)
    options = list_in(schema, "anyOf") or list_in(schema, "oneOf")
    if options and depth:
        return any(takes_object(option, root, depth - 1) for option in options[:MOST_OPTIONS])
    kinds = schema.get("type", "object")
    return "object" in kinds if isinstance(kinds, list) else kinds == "object"


def words_of(schema):
    """The names and descriptions of all fields in a schema, in no order."""
    found, todo = [], [schema]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            found += dict_in(one, "properties")
            found += (text_in(one, "description"), text_in(one, "title"))
            todo += one.values()
        elif isinstance(one, list):
            todo += one
    return " ".join(found)


def _listed(what, names):
    """Some names of things, such as `arguments 'a' and 'b'`."""
    names = [repr(name) for name in names]
    if len(names) > MOST_NAMED:
        names[MOST_NAMED:] = ["%d more" % (len(names) - MOST_NAMED)]
    return what + "s" * (len(names) > 1) + " " + " and ".join(", ".join(names).rsplit(", ", 1))


def _words(text):
    return re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).lower())


def _likeness(word, words):
    """1 for the same word, a half for one of which it is the beginning, or that is its own beginning."""
    if word in words:
        return 1
    near = (one for one in words if min(len(one), len(word)) > 2 and (one.startswith(word) or word.startswith(one)))
    return 0.5 if any(near) else 0


class Listing(list):
    """Documents, which are shown one below the other."""

    def __repr__(self):
        return "\n".join(map(repr, self)) or "[]"


class Tools:
    """The tools that this program can call.

    `tools.list()` names them all, `tools.search("words")` those that fit the words, the best first, and
    `tools.describe(name)` (or `tools[name]`) tells everything about one. To call a tool, use its name:
    `await name(...)`.
    """

    def __init__(self):
        self._documents = {}

    def list(self):
        """All tools, with their signatures and the first line of their descriptions."""
        return Listing(self._documents.values())

    def search(self, words):
        """The tools that have any of these words in their names, descriptions or parameters, the best first."""
        wanted = _words(words)
        wanted = [word for word in wanted if word not in COMMON] or wanted
        if not wanted:
            return self.list()
        ranked = [(document._rank(wanted), document) for document in self._documents.values()]
        ranked = [(rank, document) for rank, document in ranked if rank[0]]
        return Listing(document for _rank, document in sorted(ranked, key=lambda one: one[0], reverse=True))

    def describe(self, tool):
        """Everything about one tool, given by its name or by itself."""
        document = self._documents.get(tool) if isinstance(tool, str) else document_of(tool)
        for one in self._documents.values() if document is None else ():
            if one._spec["name"] == tool:
                document = one
        if document is None:
            raise KeyError("no tool %r; tools.list() names all" % (tool,))
        return document.text

    __getitem__ = describe

    def __iter__(self):
        return iter(self.list())

    def __len__(self):
        return len(self._documents)

    def __contains__(self, name):
        return name in self._documents

    def __repr__(self):
        return repr(self.list())


def document_of(function):
    """The document of a tool's function; `None` for anything else."""
    found = function.__dict__.get("__wrapped__") if type(function) is types.FunctionType else None
    return found if isinstance(found, Document) else None


def install():
    """Put `tools` into `builtins`, and teach `help` about tools. Returns the former."""
    tools = builtins.tools = Tools()
    if hasattr(builtins, "help"):

        class _Helper(type(builtins.help)):
            __module__, __qualname__ = type(builtins.help).__module__, "_Helper"

            def __call__(self, *args, **kwargs):
                document = document_of(args[0]) if len(args) == 1 else None
                if document is None:
                    return super().__call__(*args, **kwargs)
                print(document.text)

        builtins.help = _Helper()
    return tools


for _shown in (Text, Document, Listing, Tools):
    _shown.__module__ = "builtins"
