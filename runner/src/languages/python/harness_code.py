"""Compiles programs, and turns exceptions into text. It knows neither the channel nor the streams."""

from harness_traceback import traceback_view

COROUTINE = 0x80
TOP_LEVEL_AWAIT = 0x2000
ONLY_AST = 0x400
FUTURES = 0x1FE0000
LARGEST_MESSAGE_TEXT = 64 << 10
LARGEST_TRACEBACK = 256 << 10
DEEPEST_TRACEBACK = 2000
STATEMENTS = frozenset(
    "def class if for while with try import from async return raise assert del pass global nonlocal break @".split()
)


def compile_program(source, name, flags):
    """Returns `(codes, last, flags)`: code objects to execute in turn, the one whose value is the program's (or
    `None`), and the flags with the program's `__future__` imports.

    Going through the syntax tree doubles the cost of compiling. So the text is split before its last unindented line.
    If both halves compile by themselves, that line starts the last statement. Otherwise the tree decides.
    """
    flags |= TOP_LEVEL_AWAIT
    text = source.rstrip()
    start = text.rfind("\n") + 1
    while start and text[start] in " \t)]}#\n":
        start = text.rfind("\n", 0, start - 1) + 1
    # In a text of its own, an import from `__future__` would be at the beginning, wherever it stands in the program.
    if ";" not in text[start:] and "\r" not in text and "__future__" not in text[start:]:
        try:
            return _compile_split(text, start, name, flags)
        except (SyntaxError, ValueError):
            pass  # A wrong split, or a wrong program: the tree tells them apart.
    return _compile_tree(source, name, flags)


def _compile_split(text, start, name, flags):
    codes = []
    if start:
        codes.append(compile(text[:start], name, "exec", flags, True))
        flags |= codes[0].co_flags & FUTURES
    tail = "\n" * text.count("\n", 0, start) + text[start:]
    first = text[start : start + 24].replace("(", " ").replace(":", " ").split(None, 1)[:1]
    if first and first[0] not in STATEMENTS:
        try:
            return codes, compile(tail, name, "eval", flags, True), flags
        except SyntaxError:
            pass  # Not an expression.
    codes.append(compile(tail, name, "exec", flags, True))
    return codes, None, flags | codes[-1].co_flags & FUTURES


def _compile_tree(source, name, flags):
    import _ast

    tree = compile(source, name, "exec", flags | ONLY_AST, True)
    last = tree.body.pop().value if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
    body = compile(tree, name, "exec", flags, True)
    flags |= body.co_flags & FUTURES
    return [body], last and compile(_ast.Expression(last), name, "eval", flags, True), flags


def source_lines(source):
    """Lines as the compiler counts them, for `linecache`."""
    if "\r" in source:
        source = source.replace("\r\n", "\n").replace("\r", "\n")
    return [line + "\n" for line in source.split("\n")]


def heed_encoding(path, source):
    """Write a program's file again if it declares an encoding (PEP 263) other than UTF-8, in which it was written."""
    if "coding" not in source[:400]:
        return
    import os
    from io import BytesIO
    from tokenize import detect_encoding

    try:
        encoding = detect_encoding(BytesIO(source.encode()).readline)[0]
        if not encoding.startswith("utf-8"):
            data, before = source.encode(encoding), os.stat(path)
            with open(path, "wb") as file:
                file.write(data)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # It is the program's own still.
    except (OSError, SyntaxError, UnicodeError):
        pass


def cut(text, limit):
    """`text`, with its middle left out if it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s\n... %d characters left out ...\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def describe(error, hidden, main):
    """`error` as the channel's `{"type", "message", "traceback"}`.

    Frames whose globals are among `hidden` (by id) are the harness's own; `main` is the program's namespace.
    """
    kind = type(error)
    try:
        message = str(error)
    except BaseException as inner:
        message = "<str() of this %s raised %s>" % (kind.__name__, type(inner).__name__)
    try:
        _hide(error, hidden, main)
        text = "".join(_format(error))
    except BaseException as inner:
        text = "%s: %s\n(its traceback could not be formatted: %s)\n" % (kind.__name__, message, type(inner).__name__)
    return {
        "type": str(kind.__name__),
        "message": cut(message, LARGEST_MESSAGE_TEXT),
        "traceback": cut(text, LARGEST_TRACEBACK),
    }


def _format(error):
    depth, frames = 0, error.__traceback__
    while frames is not None:
        depth, frames = depth + 1, frames.tb_next
    limit = -DEEPEST_TRACEBACK if depth > DEEPEST_TRACEBACK else None
    view = traceback_view(error, limit)
    if depth:
        return view.format()
    if error.__cause__ is None and (error.__context__ is None or error.__suppress_context__):
        return view.format_exception_only()
    return view.format()


def _hide(error, hidden, main):
    """Take the harness's frames out of the tracebacks of `error` and of all exceptions that are chained to it."""
    todo, seen = [error], set()
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        todo += (one.__cause__, one.__context__)
        todo += getattr(one, "exceptions", None) or ()
        one.__traceback__ = _without(one.__traceback__, hidden, main)


def _without(frames, hidden, main):
    if frames is not None and id(frames.tb_frame.f_globals) in hidden:
        # The frames between the harness and the program include those of the event loop.
        start = frames
        while start is not None and start.tb_frame.f_globals is not main:
            start = start.tb_next
        frames = start or frames
    while frames is not None and id(frames.tb_frame.f_globals) in hidden:
        frames = frames.tb_next
    kept = frames
    while kept is not None:
        following = kept.tb_next
        while following is not None and id(following.tb_frame.f_globals) in hidden:
            following = following.tb_next
        if following is not kept.tb_next:
            kept.tb_next = following
        kept = following
    return frames


def driven(code):
    """Whether running `code` gives a coroutine."""
    return code is not None and code.co_flags & COROUTINE
