"""Formats exceptions as the interpreter does when it runs a file, though the program is in no file.

Before Python 3.13, the interpreter prints an uncaught exception in C: it reads source lines from files, and it alone
knows what a wrong name may have been meant for. `traceback` reads lines from `linecache`, where the program is, but
knows no such hints before 3.12. So this module uses `traceback` and adds the hints.
"""

import linecache
import sys
import threading
import traceback
from _thread import get_ident as _get_ident

IN_C = sys.version_info < (3, 13)
HINTS = (3, 10) <= sys.version_info < (3, 12)
# The interpreter's own bounds (`Python/suggestions.c`).
MOST_NAMES, LONGEST_NAME, MOVE, CASE = 750, 40, 2, 1


def traceback_view(error, limit=None):
    """`traceback`'s view of `error`, with the lines and hints that it lacks."""
    view = traceback.TracebackException(type(error), error, error.__traceback__, limit=limit)
    todo, seen = [(view, error)], set()
    while todo:
        view_of, one = todo.pop()
        if view_of is None or one is None or id(one) in seen:
            continue
        seen.add(id(one))
        _complete(view_of, one)
        todo += (view_of.__cause__, one.__cause__), (view_of.__context__, one.__context__)
        todo += zip(getattr(view_of, "exceptions", None) or (), getattr(one, "exceptions", None) or ())
    return view


def _complete(view, error):
    if isinstance(error, SyntaxError):
        # Errors that the parser finds have their line. For errors that the compiler finds later, the line would be read
        # from the file, and there is none.
        name, line = error.filename, error.lineno
        if view.text is None and type(name) is str and name in linecache.cache and isinstance(line, int):
            view.text = linecache.getline(name, line) or None
        end = getattr(view, "end_offset", None)
        if isinstance(end, int) and isinstance(view.text, str) and isinstance(view.offset, int):
            # The interpreter marks nothing behind the end of the line, whose length it counts in bytes, and at least
            # one character.
            length = len(view.text.rstrip("\n").encode("utf-8", "surrogatepass"))
            view.end_offset = max(min(end, length + 1), view.offset)
    elif HINTS and type(error) in (AttributeError, NameError):
        try:
            hint = _hint(error)
        except Exception:
            hint = None
        if hint is not None:
            view._str = "%s. Did you mean: '%s'?" % (view._str, hint)


def _hint(error):
    """The name that was probably meant; `None` if none is near."""
    wrong = error.name
    if type(wrong) is not str or len(wrong) > LONGEST_NAME:
        return None
    if type(error) is AttributeError:
        return _nearest(wrong, dir(error.obj))
    at = error.__traceback__
    if at is None:
        return None
    while at.tb_next is not None:
        at = at.tb_next
    frame = at.tb_frame
    for names in (frame.f_code.co_varnames, frame.f_globals, frame.f_builtins):
        hint = _nearest(wrong, list(names))
        if hint is not None:
            return hint
    return None


def _nearest(wrong, names):
    if len(names) >= MOST_NAMES:
        return None
    best, least = None, 1 << 30
    for name in names:
        if type(name) is not str or name == wrong:
            continue
        # At most a third of the characters may differ, and the name must be nearer than the best one so far.
        most = min((len(name) + len(wrong) + 3) * MOVE // 6, least - 1)
        distance = _distance(wrong, name, most)
        if distance <= most:
            best, least = name, distance
    return best


def _distance(a, b, most):
    """Levenshtein's distance, where another case costs half of another character. As soon as it is sure to be above
    `most`, the result is some number above it."""
    while a and b and a[0] == b[0]:
        a, b = a[1:], b[1:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    if not a or not b:
        return MOVE * (len(a) + len(b))
    if len(a) > LONGEST_NAME or len(b) > LONGEST_NAME or abs(len(a) - len(b)) * MOVE > most:
        return most + 1
    row = [MOVE * count for count in range(1, len(a) + 1)]
    for down, other in enumerate(b):
        above = result = down * MOVE
        least = most + 1
        for across, one in enumerate(a):
            cost = 0 if one == other else CASE if one.lower() == other.lower() else MOVE
            swapped, above = above + cost, row[across]
            result = min(swapped, min(result, above) + MOVE)
            row[across] = result
            least = min(least, result)
        if least > most:
            return most + 1
    return result


def install():
    """Replace the interpreter's hooks for uncaught exceptions, where these would look for source lines in files."""
    if not IN_C:
        return
    in_c = sys.__excepthook__

    def excepthook(exctype, value, traceback):
        """Handle an exception by displaying it with a traceback on sys.stderr."""
        file = sys.stderr
        if file is None:
            return
        if not isinstance(value, BaseException):
            return in_c(exctype, value, traceback)
        if traceback is not None and value.__traceback__ is None:
            value.__traceback__ = traceback
        try:
            text = "".join(traceback_view(value).format())
        except Exception:
            return in_c(exctype, value, traceback)
        file.write(text)
        file.flush()

    excepthook.__module__, excepthook.__qualname__ = "sys", "excepthook"
    sys.excepthook = sys.__excepthook__ = excepthook

    in_c_of_threads = threading.excepthook

    def thread_excepthook(args, /):
        """Handle uncaught Thread.run() exception."""
        if not isinstance(args, threading.ExceptHookArgs):
            return in_c_of_threads(args)
        if args.exc_type == SystemExit:
            return
        file, thread = sys.stderr, args.thread
        if file is None:
            file = thread._stderr if thread is not None else None
            if file is None:
                return
        if not isinstance(args.exc_value, BaseException):
            return in_c_of_threads(args)
        try:
            text = "".join(traceback_view(args.exc_value).format())
        except Exception:
            return in_c_of_threads(args)
        file.write("Exception in thread %s:\n%s" % (thread.name if thread is not None else _get_ident(), text))
        file.flush()

    thread_excepthook.__module__ = "threading"
    thread_excepthook.__name__ = thread_excepthook.__qualname__ = "excepthook"
    threading.excepthook = thread_excepthook
    if hasattr(threading, "__excepthook__"):
        threading.__excepthook__ = thread_excepthook
