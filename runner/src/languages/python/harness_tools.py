"""Makes the functions with which a program calls its tools, and notices the calls that it forgot to await."""

import sys
import types

from harness_docs import documents
from harness_errors import ToolError


MOST_FORGOTTEN = 16  # Names.


def make_tools(channel, catalog, specs, texts, blocking=False):
    """The functions of a run's tools by their names in the code. `catalog` shows those that may be called from now on.
    If they are `blocking`, they give results, and nothing is awaited."""
    found = documents(specs or (), texts, blocking)
    catalog._documents = {alias: one for alias, one in found.items() if not one._spec.get("hidden")}
    return {alias: make_tool(channel, document) for alias, document in found.items()}


def make_tool(channel, document):
    """The function for the tool of a `harness_docs.Document`: an `async` function, with a blocking one as its `sync`.
    Of a blocking tool, it is the latter."""
    spec = document._spec
    name, alias = spec["name"], spec["alias"]
    bind = document.bind

    def unpack(answer):
        ok, value = answer
        if not ok:
            if isinstance(value, str):
                raise ToolError(value, name)
            raise ToolError._of(value["message"], name, value.get("type"), value.get("data"))
        return value

    async def tool(*args, **kwargs):
        return unpack(await channel.ask(name, bind(args, kwargs)))

    def sync(*args, **kwargs):
        return unpack(channel.ask_sync(name, bind(args, kwargs)))

    tool.__name__ = tool.__qualname__ = alias
    sync.__name__ = sync.__qualname__ = alias if document._blocking else alias + ".sync"
    tool.__doc__ = sync.__doc__ = spec.get("description") or None
    tool.__module__ = sync.__module__ = "__main__"
    # `inspect.signature` looks here. The signature is made when somebody asks for it.
    tool.__wrapped__ = sync.__wrapped__ = document
    tool.sync = sync
    if not document._blocking:
        return tool
    sync.sync = sync
    return sync


# All tools' functions have this code, and so have the coroutines that calling them gives.
_CODE = next(one for one in make_tool.__code__.co_consts if getattr(one, "co_name", "") == "tool")


class Forgotten:
    """Coroutines of tools, and of the program's own `async` functions, that nobody has awaited."""

    def __init__(self, program, hidden):
        """`program` is the program's namespace, and `hidden` has those of the harness, by id."""
        import warnings

        self.program, self.hidden = program, hidden
        self.counts, self.tasks = {}, {}
        self.told = frozenset()
        self.at_rest = sys.getrefcount(_CODE)
        self.plain = warnings._warn_unawaited_coroutine
        self.warn = warnings.warn
        warnings._warn_unawaited_coroutine = self.lost

    def lost(self, coroutine):
        """Python calls this in place of its own warning, for a coroutine that is gone."""
        if id(coroutine) not in self.told:
            self.count(coroutine, self.counts)
        if coroutine.cr_origin is not None:
            return self.plain(coroutine)
        text = "coroutine %r was never awaited" % coroutine.__qualname__
        # It has no place in the program if the harness has let go of it. Python says `sys:1` of such ones.
        at = 2 if id(sys._getframe(1).f_globals) not in self.hidden else sys.maxsize >> 32
        self.warn(text, category=RuntimeWarning, stacklevel=at, source=coroutine)

    def see_tasks(self, tasks):
        """Note the tasks that have not ended when the program ends."""
        for task in tasks:
            self.count(task.get_coro(), self.tasks)

    def count(self, coroutine, counts):
        """Count one that is a tool's or the program's own."""
        if type(coroutine) is not types.CoroutineType or coroutine.cr_frame is None:
            return
        if coroutine.cr_code is not _CODE and coroutine.cr_frame.f_globals is not self.program:
            return
        name = coroutine.__qualname__
        if name in counts or len(counts) < MOST_FORGOTTEN:
            counts[name] = counts.get(name, 0) + 1

    def notes(self, functions):
        """What to tell about this run. `functions` is how many functions its tools have."""
        told = set()
        # A look at all objects takes long, and is rarely needed: all coroutines of tools refer to one code.
        if sys.getrefcount(_CODE) > self.at_rest + functions:
            for one in self.left():
                told.add(id(one))
                if id(one) not in self.told:
                    self.count(one, self.counts)
        calls, tasks = self.counts.items(), self.tasks.items()
        self.counts, self.tasks, self.told = {}, {}, told
        notes = [
            "You called %s without await%s, so it did not run: write `await %s(...)`." % (name, times(count), name)
            for name, count in calls
        ]
        return notes + [
            "You made a task of %s%s that had not ended when the program did, and was cancelled: await it." % (name, times(count))
            for name, count in tasks
        ]

    def left(self):
        """Coroutines of tools that the program still has, that have not begun, and that no task is going to run."""
        import gc
        from inspect import CORO_CREATED, getcoroutinestate

        objects = gc.get_objects()
        asyncio = sys.modules.get("asyncio")
        tasks = [one for one in objects if asyncio is not None and issubclass(type(one), asyncio.Task)]
        begin = {id(task.get_coro()) for task in tasks}
        return [
            one
            for one in objects
            if type(one) is types.CoroutineType
            and one.cr_code is _CODE
            and id(one) not in begin
            and getcoroutinestate(one) == CORO_CREATED
        ]


def times(count):
    """How many times something was done, if it was not once."""
    return "" if count == 1 else " %d times" % count
