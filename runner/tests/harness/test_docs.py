"""Documentation of tools: `tools`, `help` and signatures."""

import json
import unittest

from support import Case, reply, tool

TAKES = {
    "type": "object",
    "required": ["query", "filter"],
    "properties": {
        "query": {"type": "string", "description": "What to look for."},
        "limit": {"type": "integer", "default": 10, "description": "Most results.\n  At most 50."},
        "lang": {"enum": ["de", "en", None], "default": None},
        "max-age": {"type": ["integer", "null"]},
        "filter": {"$ref": "#/$defs/Filter"},
    },
    "$defs": {"Filter": {"type": "object", "description": "A filter.", "properties": {"sites": {"type": "array", "items": {"type": "string"}}}}},
}
GIVES = {"type": "array", "items": {"type": "object", "properties": {"title": {"type": "string", "description": "Its title."}, "score": {"type": "number"}}}}
SEARCH = tool(
    "web.search",
    alias="web_search",
    description="Searches the web.\n\nUse it for recent events.",
    takes=json.dumps(TAKES),
    gives=json.dumps(GIVES),
)
ADD = tool("add", ["a", "b"], description="Adds numbers.")
PARAMETERS = "query: str, limit: int = 10, lang: Literal['de', 'en', None] = None, *, filter: Filter, **kwargs"
SIGNATURE = "web_search(%s) -> list[WebSearchResult]" % PARAMETERS
TEXT = """\
# Dicts with these keys. Their names are not defined in the program.
class Filter(TypedDict):
    \"""A filter.\"""
    sites: NotRequired[list[str]]


class WebSearchResult(TypedDict):
    title: NotRequired[str]  # Its title.
    score: NotRequired[float]


async def web_search(
    query: str,  # What to look for.
    # Most results.
    # At most 50.
    limit: int = 10,
    lang: Literal['de', 'en', None] = None,
    *,
    filter: Filter,
    **kwargs,  # 'max-age': int | None, optional; give it as **{'max-age': ...}
) -> list[WebSearchResult]:
    \"""Searches the web.

    Use it for recent events.
    \"""
"""


class Documentation(Case):
    def shown(self, code, tools):
        return self.ok(code, tools=tools).out

    def test_list(self):
        listed = "%s\n    Searches the web.\nadd(a, b)\n    Adds numbers." % SIGNATURE
        self.assertEqual(self.shown("print(tools.list())", [SEARCH, ADD]), listed + "\n")
        for code in ("tools.list()", "tools"):
            self.assertEqual(self.ok(code, tools=[SEARCH, ADD]).value, {"text/plain": listed})
        code = "for one in tools.list(): print([one.name, one.signature, one.summary])\nprint(len(tools), [t.name for t in tools], 'add' in tools, 'x' in tools)"
        lines = self.shown(code, [SEARCH, ADD]).split("\n")
        self.assertEqual(lines[1:3], ["['add', 'add(a, b)', 'Adds numbers.']", "2 ['web_search', 'add'] True False"])

    def test_without_tools_there_are_none(self):
        self.assertEqual(self.ok("print(tools.list(), tools.list() == [], tools.search('x'), len(tools))").out, "[] True [] 0\n")

    def test_describe_and_help(self):
        for code in (
            "print(tools.describe('web_search'))",
            "print(tools['web_search'])",
            "print(tools['web.search'])",
            "print(tools[web_search])",
            "help(web_search)",
            "help(web_search.sync)",
        ):
            self.assertEqual(self.shown(code, [ADD, SEARCH]), TEXT, code)
        self.assertEqual(self.ok("tools['web_search']", tools=[SEARCH]).value, {"text/plain": TEXT[:-1]})
        code = "d = tools['web_search']\nprint(d.input_schema['required'], d.output_schema['type'], tools['add'].input_schema)"
        self.assertEqual(self.shown(code, [SEARCH, ADD]), "['query', 'filter'] array None\n")
        outcome = self.raised("tools['serach']", "KeyError", tools=[SEARCH])
        self.assertIn("no tool 'serach'; tools.list() names all", outcome.error["message"])
        self.assertEqual(outcome.error["traceback"].count("  File "), 1, outcome.error["traceback"])

    def test_help_is_otherwise_pythons(self):
        code = "help(len)\nprint(help)\nimport pydoc\npydoc.help(web_search)\nhelp('nowhere.to.be.found')"
        shown = self.shown(code, [SEARCH])
        self.assertIn("Help on built-in function len", shown)
        self.assertIn("Type help() for interactive help", shown)
        for part in ("lang: Literal['de', 'en', None] = None", "-> list[WebSearchResult]\n    Searches the web."):
            self.assertIn(part, shown)
        self.assertIn("No Python documentation found for 'nowhere.to.be.found'", shown)

    def test_signatures(self):
        code = (
            "import inspect\nfor f in (web_search, web_search.sync, add, bare, none):\n    print(inspect.signature(f))\n"
            "print(inspect.signature(web_search).bind('q', filter={}).arguments)\nprint(inspect.iscoroutinefunction(add), add.__doc__)"
        )
        none = tool("none", takes='{"type":"object","properties":{}}')
        named = SIGNATURE[len("web_search") :]
        lines = self.shown(code, [SEARCH, ADD, tool("bare"), none]).split("\n")
        self.assertEqual(lines[:5], [named, named, "(a, b)", "(**kwargs)", "()"])
        self.assertIn("'query'", lines[5])
        self.assertEqual(lines[6], "True Adds numbers.")
        takes = '{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"x":{"type":"integer"}}}}}'
        kinds = [("x", "positional_only"), ("y", "positional_or_keyword"), ("z", "keyword_only")]
        params = [{"name": name, "kind": kind, "required": True} for name, kind in kinds]
        for count, others, signature in ((1, False, "(x: int, /)"), (2, True, "(x: int, /, y, **kwargs)"), (3, False, "(x: int, /, y, *, z)")):
            shown = self.shown("import inspect\nprint(inspect.signature(t), tools)", [tool("t", params[:count], takes=takes, others=others)])
            self.assertEqual(shown, "%s t%s\n" % (signature, signature))

    def test_search(self):
        tools = [
            tool("files.read", alias="files_read", description="Gives a file's text.", takes='{"properties":{"path":{"description":"Where it is."}}}'),
            tool("readCalendar", description="Lists appointments."),
            tool("mail", description="Sends a letter.", takes='{"properties":{"calendar":{"properties":{"appointment":{"description":"To read."}}}}}'),
            tool("other"),
        ]
        for words, names in (
            ("read", ["files_read", "readCalendar", "mail"]),
            ("READ calendar", ["readCalendar", "mail", "files_read"]),
            ("appointments", ["readCalendar", "mail"]),
            ("the appointment of a mail", ["mail", "readCalendar"]),
            ("file", ["files_read"]),
            ("path", ["files_read"]),
            ("xyz", []),
            ("", ["files_read", "readCalendar", "mail", "other"]),
            (".*[(", ["files_read", "readCalendar", "mail", "other"]),
        ):
            self.assertEqual(self.shown("print([t.name for t in tools.search(%r)])" % words, tools), repr(names) + "\n", words)

    def test_raw_results_are_text(self):
        raw = tool("r", raw=True, gives='{"type":"object","description":"All of it.","properties":{"n":{"type":"integer"}}}')
        self.assertEqual(
            self.shown("print(tools['r'])\nprint(tools.list())", [raw]),
            "# Dicts with these keys. Their names are not defined in the program.\nclass RResult(TypedDict):\n"
            '    """All of it."""\n    n: NotRequired[int]\n\n\nasync def r(**kwargs) -> str:  # the JSON text of RResult\n'
            "    ...\nr(**kwargs) -> str\n",
        )

    def test_types(self):
        many = [str(n) for n in range(1000)]
        for schema, shown, note in (
            ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}, "str | list[int] | None", ""),
            ({"type": "object", "additionalProperties": {"type": "boolean"}}, "dict[str, bool]", ""),
            ({"const": 3}, "Literal[3]", ""),
            ({"enum": [0.5, "x", None, [1]]}, "float | str | None | list", "one of 0.5, 'x', None, [1]"),
            ({"type": "string", "enum": many}, "str", "one of " + ", ".join(map(repr, many))[:2000] + " …"),
            ({"allOf": [{"$ref": "#/definitions/a~1b"}], "definitions": {"a/b": {"type": "number"}}}, "float", ""),
            ({"type": "integer", "allOf": [{"minimum": 2}, {"exclusiveMaximum": 7}]}, "int", "at least 2; below 7"),
            ({"type": ["integer", "null"], "nullable": True}, "int | None", ""),
            ({"type": "string", "nullable": True, "minLength": 0, "maxLength": 3}, "str | None", "at most 3 characters"),
            ({"type": "array", "minItems": 1, "uniqueItems": True, "items": {"type": "string", "format": "date"}}, "list[str]", "at least 1 items; no two equal; each: a date, such as '2026-07-04'"),
            ({"type": "array", "maxItems": 2, "prefixItems": [{"type": "string", "format": "uri"}, {"type": "integer"}]}, "list[str | int]", "in this order: str (a URL, such as 'https://example.org/a'), int"),
            ({"anyOf": [{"type": "string", "format": "time"}, {"type": "integer", "minimum": 0}]}, "str | int", "str: a time, such as '09:30:00'; int: at least 0"),
            ({"type": "object", "propertyNames": {"pattern": "^a"}, "additionalProperties": {"multipleOf": 5, "type": "integer"}}, "dict[str, int]", "each value: a multiple of 5; each key: matches ^a"),
            ({"type": "string", "format": "odd", "examples": ["x"], "description": "Odd."}, "str", "Odd. Of the format odd; such as 'x'"),
            ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "dict", ""),
            ({"items": {}}, "list", ""),
            ({"oneOf": [{"type": "string"}, {}]}, None, ""),
            ({"$ref": "https://example.org/schema"}, None, ""),
        ):
            text = self.shown("print(tools['t'])", [tool("t", gives=json.dumps(schema))])
            arrow, about = " -> " + shown if shown else "", "  # " + note if note else ""
            self.assertEqual(text.split("\n")[0], "async def t(**kwargs)%s:%s" % (arrow, about))

    def test_dicts(self):
        def dict_of(**keys):
            return {"type": "object", "properties": keys, "required": [*keys]}

        node = dict_of(children={"type": "array", "items": {"$ref": "#/$defs/Node"}})
        names = dict(dict_of(**{"class": {"type": "integer"}, "__x": {"default": 3}}), title="my names", description="Odd names.")
        names.update(required=["class"], additionalProperties=True)
        cat, dog = dict_of(kind={"const": "cat"}), dict_of(kind={"const": "dog"}, names=names)
        takes = dict_of(node={"$ref": "#/$defs/Node"}, pet={"oneOf": [cat, dog]}, both={"allOf": [dict_of(a={"type": "integer"}), {"properties": {"b": {}}}]})
        takes["$defs"] = {"Node": dict(node, title="Node")}
        gives = {"$ref": "#/$defs/Node", "$defs": takes["$defs"]}
        text = self.shown("print(tools['t'])", [tool("t", takes=json.dumps(takes), gives=json.dumps(gives))])
        self.assertEqual(
            text,
            """\
# Dicts with these keys. Their names are not defined in the program.
class Node(TypedDict):
    children: list[Node]


class Pet(TypedDict):
    kind: Literal['cat']


class Pet2(TypedDict):
    kind: Literal['dog']
    names: MyNames


class Both(TypedDict):
    a: int
    b: NotRequired[Any]


# Odd names.
MyNames = TypedDict(
    'MyNames',
    {
        'class': int,
        '__x': NotRequired[Any],  # default: 3
        # Other keys: Any
    },
)


async def t(node: Node, pet: Pet | Pet2, both: Both) -> Node:
    ...
""",
        )

    def test_a_programs_own_names_win(self):
        self.assertEqual(self.shown("print('tools' in vars())\ntools = 5\nprint(tools)", [ADD]), "False\n5\n")
        outcome = self.ok("print(await tools(1))\nimport builtins\nprint(len(builtins.tools))", tools=[tool("tools", ["n"])], answer=lambda p, c: reply(p, c, 7))
        self.assertEqual(outcome.out, "7\n1\n")

    def test_a_session_shows_the_present_jobs_tools(self):
        session = self.session()
        run = lambda code, *tools: session.run(code, session=True, tools=tools).out
        self.assertEqual(run("f, t = add, tools\nprint(tools)", ADD), "add(a, b)\n    Adds numbers.\n")
        self.assertEqual(run("print(tools, t is tools)"), "[] True\n")
        self.assertEqual(run("print(t.list()[0].name)\nhelp(f)", SEARCH), 'web_search\nasync def add(a, b):\n    """Adds numbers."""\n')

    def test_nothing_is_read_before_the_first_question(self):
        many = [dict(SEARCH, name="t%d" % n, alias="t%d" % n) for n in range(200)]
        code = (
            "documents = tools._documents.values()\nasked = lambda: sum('input_schema' in vars(d) for d in documents)\n"
            "print(type(documents.__iter__().__next__()._schemas.texts), asked())\nawait t0('q', filter={})\nhelp(t7)\nprint(asked())\nprint(len(tools.list()[199].signature))"
        )
        outcome = self.ok(code, tools=many, answer=lambda p, c: reply(p, c, 1))
        lines = outcome.out.split("\n")
        self.assertEqual((lines[0], lines[-3], lines[-2]), ("<class 'str'> 0", "1", str(len(SIGNATURE.replace("web_search", "t199").replace("WebSearch", "T199")))))

    def test_hostile_schemas(self):
        wide = {"properties": {str(n): {"$ref": "#"} for n in range(50)}}
        for schema in (
            json.dumps({"properties": {"x": {"description": "a\n\x00b\u2028\\ \"\"\"\ud800", "properties": {"y": {"description": "\x0c\rimport os"}}}}}),
            json.dumps({"properties": {"x": {"title": "dict", "description": "\\", "properties": {'"\n\\': {}, "a": {"default": 1e400}}}}}),
            *("null", "true", "3", "[]", '""', "[" * 100000 + "]" * 100000, "1" + "0" * 5000, '{"properties":' * 900 + "{}" + "}" * 900),
            '{"properties":[],"required":5,"$ref":7,"anyOf":{},"type":{},"enum":3,"description":[],"allOf":[3]}',
            '{"properties":{"a":null,"b":3,"c":{"type":["x",{},null]},"d":{"enum":[[],{}]},"e":{"default":{}},"f":{"description":{}},"":{},"class":{}}}',
            '{"properties":{"a\\nimport os":{"type":"\\u0000"},"__class__":{"default":"\\ud800"},"x":{"$ref":"#/properties/x"}}}',
            '{"properties":{"self":{},"args":{},"kwargs":{},"\\u00b5":{},"\\u03bc":{}},"additionalProperties":true}',
            '{"$ref":"#","allOf":[{"$ref":"#"}]}',
            json.dumps(wide),
            json.dumps({"anyOf": [{"$ref": "#"}] * 50}),
            json.dumps({"properties": {"x": {"default": "x" * 1000000}}}),
        ):
            code = (
                "import ast, inspect\nt = tools['t']\nast.parse(t)\nl = repr(tools.list())\nhelp(globals()['t'])\ntools.search('a b')\nrepr(inspect.signature(f))\n"
                "print('\\n', len(t) < 100000, len(l) < 10000)"
            ).replace("help(globals()['t'])", "str(t)")
            outcome = self.ok("f = t\n" + code, tools=[tool("t", takes=schema, gives=schema, description='A\n\x00"""\\')])
            self.assertEqual(outcome.out.strip(), "True True", schema[:80])


if __name__ == "__main__":
    unittest.main()
