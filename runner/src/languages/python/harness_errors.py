"""Errors of tools: `ToolError`, and its subclasses that are built-in exceptions, too."""

import builtins

# A generator, a coroutine or a loop takes these for its own end. An error of a tool would get lost.
_ENDINGS = (StopIteration, StopAsyncIteration)
_GROUP = getattr(builtins, "ExceptionGroup", ())
# What `raise` may raise for a tool, by the names that a program has for it. It is fixed before a program runs.
_KINDS = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, _ENDINGS)
}
_made = {}


class ToolError(Exception):
    """A tool answered with an error, or could not be called. `tool` is its name. `type` is the name of the error's type
    and `data` is more about the error, if the tool has told them.

    If `type` names a built-in exception, the error is an instance of that one, too."""

    type = data = None

    def __init__(self, message="", tool=None):
        super().__init__(message)
        self.tool = tool

    @classmethod
    def _of(cls, message, tool, type=None, data=None):
        """The error that a tool has answered with."""
        kind = _KINDS.get(type)
        error = (_with(kind) if kind else cls)(message, tool)
        if type is not None:
            error.type = type
        if data is not None:
            error.data = data
        return error


ToolError.__module__ = "builtins"
ToolError.__qualname__ = "ToolError"


def _with(kind):
    """The class of tools' errors that are instances of the built-in `kind`, too. It is made once. It goes by the
    built-in's name, which tracebacks and reports then show."""
    made = _made.get(kind)
    if made is not None:
        return made

    def init(self, message="", tool=None):
        kind.__init__(self, *_arguments(kind, message, tool))
        self.args = (message,)
        self.tool = tool

    def reduce(self):
        # Pickle would look for the class under its name, and find the built-in.
        return ToolError._of, (str(self), self.tool, self.type, self.data), self.__dict__

    names = {"__init__": init, "__reduce__": reduce, "__str__": BaseException.__str__, "type": kind.__name__}
    names.update(__module__="builtins", __doc__=kind.__doc__)
    if issubclass(kind, _GROUP):
        names["__new__"] = lambda cls, message="", tool=None: kind.__new__(cls, *_arguments(kind, message, tool))
    # Two threads may come here at once: the first one's class is kept.
    return _made.setdefault(kind, type(kind.__name__, (ToolError, kind), names))


def _arguments(kind, message, tool):
    """What the built-in's constructor takes in place of a message."""
    if issubclass(kind, UnicodeTranslateError):
        return "", 0, 0, message
    if issubclass(kind, UnicodeEncodeError):
        return "", "", 0, 0, message
    if issubclass(kind, UnicodeDecodeError):
        return "", b"", 0, 0, message
    if issubclass(kind, _GROUP):
        return message, [ToolError(message, tool)]
    return (message,)
