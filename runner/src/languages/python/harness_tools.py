"""Makes the functions with which a program calls its tools."""

from harness_channel import _dumps
from harness_docs import documents
from harness_errors import ToolError


def make_tools(channel, catalog, specs, texts):
    """The functions of a run's tools by their names in the code. `catalog` shows the tools from now on."""
    catalog._documents = documents(specs or (), texts)
    return {alias: make_tool(channel, document) for alias, document in catalog._documents.items()}


def make_tool(channel, document):
    """The function for the tool of a `harness_docs.Document`: an `async` function, with a blocking one as its `sync`."""
    spec = document._spec
    name, alias = spec["name"], spec["alias"]
    bind, raw = document.bind, spec.get("raw")

    def unpack(answer):
        ok, value = answer
        if not ok:
            if isinstance(value, str):
                raise ToolError(value, name)
            raise ToolError._of(value["message"], name, value.get("type"), value.get("data"))
        return value if not raw or isinstance(value, str) else _dumps(value)

    async def tool(*args, **kwargs):
        return unpack(await channel.ask(name, bind(args, kwargs)))

    def sync(*args, **kwargs):
        return unpack(channel.ask_sync(name, bind(args, kwargs)))

    tool.__name__ = tool.__qualname__ = alias
    sync.__name__ = sync.__qualname__ = alias + ".sync"
    tool.__doc__ = sync.__doc__ = spec.get("description") or None
    tool.__module__ = sync.__module__ = "__main__"
    # `inspect.signature` looks here. The signature is made when somebody asks for it.
    tool.__wrapped__ = sync.__wrapped__ = document
    tool.sync = sync
    return tool
