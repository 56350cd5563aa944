"""Makes the functions with which a program calls its tools."""

from harness_channel import ToolError, _dumps


def make_tool(channel, spec):
    """The function for one tool: an `async` function, with a blocking one as its `sync`."""
    name, alias = spec["name"], spec["alias"]
    params, raw = spec.get("params") or (), spec.get("raw")

    def bind(args, kwargs):
        if not args:
            return kwargs
        if len(args) == 1 and not kwargs and isinstance(args[0], dict):
            bad = [key for key in args[0] if not isinstance(key, str)]
            if bad:
                raise TypeError("tool %s: argument names must be str, not %s" % (alias, type(bad[0]).__name__))
            return args[0]
        if len(args) > len(params):
            raise TypeError(
                "%s() takes %d positional arguments but %d were given (or one dict)" % (alias, len(params), len(args))
            )
        bound = dict(zip(params, args))
        for key in kwargs:
            if key in bound:
                raise TypeError("%s() got multiple values for argument %r" % (alias, key))
        bound.update(kwargs)
        return bound

    def unpack(answer):
        ok, value = answer
        if not ok:
            raise ToolError(value if isinstance(value, str) else _dumps(value), name)
        return value if not raw or isinstance(value, str) else _dumps(value)

    async def tool(*args, **kwargs):
        return unpack(await channel.ask(name, bind(args, kwargs)))

    def sync(*args, **kwargs):
        return unpack(channel.ask_sync(name, bind(args, kwargs)))

    tool.__name__ = tool.__qualname__ = alias
    sync.__name__ = sync.__qualname__ = alias + ".sync"
    tool.__doc__ = sync.__doc__ = spec.get("description") or None
    tool.__module__ = sync.__module__ = "__main__"
    tool.sync = sync
    return tool
