"""Standard streams over descriptors 0, 1 and 2, which hold fresh pipes in each run and `/dev/null` between runs.

The objects are made before a run comes, over a pipe: what they find out about it (that it can't seek) stays true in the
run.
"""

import io
import os
import sys

_dup2, _close, _open, _pipe = os.dup2, os.close, os.open, os.pipe


def _writer(fd, name, errors, line_buffering):
    raw = io.FileIO(fd, "w", closefd=False)
    raw.name = name
    text = io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, "\n", line_buffering)
    text.mode = "w"
    return text


def _reader():
    raw = io.FileIO(0, "r", closefd=False)
    raw.name = "<stdin>"
    text = io.TextIOWrapper(io.BufferedReader(raw), "utf-8", "surrogateescape")
    text.mode = "r"
    return text


def flush(*streams):
    """Flush what can be flushed: the program may have closed or replaced any of them."""
    for stream in streams:
        try:
            stream.flush()
        except BaseException:
            pass


class Streams:
    """The process's own `sys.stdin` (new in each run), `sys.stdout` and `sys.stderr` (kept while they work)."""

    def __init__(self):
        self.stdin = self.out = self.err = None
        self.prepare()

    def prepare(self):
        """Put /dev/null in place of a run's pipes, so that the runner sees their end, and make streams for the next
        run."""
        self.stdin = None
        _detach()
        try:
            reading, writing = _pipe()
        except OSError:
            return  # The program holds too many descriptors: `attach` tries again.
        kept = _works(self.out) and _works(self.err)
        _dup2(reading, 0)
        if not kept:
            _dup2(writing, 1)
            _dup2(writing, 2)
        _close(reading)
        _close(writing)
        self.make()
        if kept:
            _dup2(1, 0)  # One system call in place of five, while the next run may already be on its way.
        else:
            _detach()

    def make(self):
        if not _works(self.out):
            self.out = _writer(1, "<stdout>", "surrogateescape", False)
        if not _works(self.err):
            self.err = _writer(2, "<stderr>", "backslashreplace", True)
        self.stdin = _reader()

    def attach(self, fds, follow):
        """Put a run's descriptors in place and give it working streams. `follow`: somebody reads along, so each line
        goes out at once."""
        flush(self.out, self.err)  # What threads wrote after the last run goes to /dev/null, not into this run.
        for fd, received in enumerate(fds[:3]):
            _dup2(received, fd)
        for received in fds:
            _close(received)
        if self.stdin is None:
            self.make()
        if follow is not self.out.line_buffering:
            self.out.reconfigure(line_buffering=follow)
        sys.stdin = sys.__stdin__ = self.stdin
        sys.stdout = sys.__stdout__ = self.out
        sys.stderr = sys.__stderr__ = self.err

    def finish(self):
        """Flush everything that was written into the pipes."""
        out, err = getattr(sys, "stdout", None), getattr(sys, "stderr", None)
        if out is not self.out or err is not self.err:
            flush(out, err)
        flush(self.out, self.err)


def _works(stream):
    try:
        return stream is not None and not stream.closed
    except ValueError:  # Detached.
        return False


def _detach():
    """Put /dev/null on the three descriptors, whatever they are now."""
    null = _open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        if null == fd:
            os.set_inheritable(fd, True)
        else:
            _dup2(null, fd)
    if null > 2:
        _close(null)
