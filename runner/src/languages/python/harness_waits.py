"""Notices when a program only waits for answers of its tool calls, so that the runner can be told.

A program waits when each of its threads does: in a tool call of its own, in an event loop that has nothing else to wait
for, as an idle worker of an executor, or for one of the other threads. A wait that ends soon costs no message and no
system call: its time is told with the next tool call.
"""

import _thread
import os
import signal
import sys
import threading
import time

# How long a wait is not told, in seconds.
SILENT = 0.2
# Shorter times are told later, together with others.
SHORTEST = 0.01
# The event loop's own descriptor, and the channel.
FEWEST = 2
# Shortest and longest time until a program that has timers tells anew that it waits, in seconds: its handlers may have
# set others or none.
AGAIN, LATEST = 2.0, 3600.0
# Longest time between two looks whether the main thread has handled a signal, in seconds.
LONGEST = 2.0

_monotonic = time.monotonic
_get_ident, _threads, _frames = _thread.get_ident, _thread._count, sys._current_frames
_listdir, _waitid = os.listdir, os.waitid
_getitimer, _REAL, _open = signal.getitimer, signal.ITIMER_REAL, open
# Has the main thread run the handlers of signals. After a stop, the kernel may give a signal to any thread, and the main
# one, which runs the handlers, would not notice.
_NUDGE = signal.SIGRTMAX
_main, _kill, _getsignal = threading.main_thread(), signal.pthread_kill, signal.getsignal
_CHILDREN = (os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
# Where a thread waits for another one, if it does so without a time limit, and what the limit is called there.
_PLACES = {threading.Condition.wait.__code__: "timeout", threading.Thread.join.__code__: "timeout"}
_PLACES.update({threading._shutdown.__code__: ""})
if hasattr(threading.Thread, "_wait_for_tstate_lock"):
    _PLACES[threading.Thread._wait_for_tstate_lock.__code__] = "timeout"


class Waits:
    """The waits of a run. `idle()` is whether no tool call is outstanding, and `send` sends a message."""

    def __init__(self, idle, send):
        self.idle = idle
        self.send = send
        self.resting = set()
        signal.signal(_NUDGE, nudged)
        self.start_run()

    def start_run(self):
        self.got = 0
        self.since = None
        self.untold = 0.0
        self.told = 0
        # Whether the runner was told so, and whether it wants to be told again.
        self.said = self.again = False

    def block(self, wait):
        """Block this thread: return what `wait(seconds)` does, where `None` is no limit. If the whole program waits for
        a while, tell the runner."""
        try:
            again, self.again = self.again, False
            silent, look = self.begin(), SILENT
            while again and nudge() and not self.idle():
                # The main thread handles the signal meanwhile, and tells nothing when it goes on waiting.
                got = wait(look)
                if got:
                    return got
                silent, look = self.begin(), min(look * 2, LONGEST)
                again = silent is None
            got = wait(silent)
            while silent is not None and not got:
                timer = next_timer()
                self.tell(timer is not None)
                silent = timer if timer is None else min(max(timer, AGAIN), LATEST)
                got = wait(silent)
                if silent is not None and not got and self.begin() is None:
                    silent = None
                    got = wait(None)
            return got
        finally:
            self.end()

    def begin(self):
        """This thread waits from now on. Returns how long it may before the runner is told; `None` if the program does
        not wait."""
        if self.idle():
            return None
        self.resting.add(_get_ident())
        if _threads() and not self.all_rest():
            return None
        self.since = _monotonic()
        return max(SILENT - self.untold, 0.0)

    def end(self):
        """This thread goes on. A handler of a signal may have raised, or woken the event loop: no answer tells the runner
        then that the program does not wait any more."""
        self.resting.discard(_get_ident())
        if self.said:
            self.said = False
            self.send(b'{"op":"waits"}')
        since, self.since = self.since, None
        if since is not None:
            self.untold += _monotonic() - since

    def all_rest(self):
        """Whether all other threads wait, too."""
        me = _get_ident()
        for ident, frame in _frames().items():
            if ident != me and ident not in self.resting and not rests(frame):
                return False
        return True

    def tell(self, timers):
        """Tell the runner that the program waits, if it does, and whether it has set timers. Then it is not stopped."""
        since, self.since = self.since, None
        if since is None or self.idle():
            return
        if self.all_rest() and is_alone():
            waited = self.waited()
            waited += ',"timers":true' if timers else ""
            data = '{"op":"waits","got":%d,"for_ms":%d%s}' % (self.got, (_monotonic() - since) * 1000, waited)
            self.send(data.encode())
            self.said = True
        self.untold = 0.0

    def waited(self):
        """What a message says of the waits that the runner was not told of."""
        if self.untold < SHORTEST:
            return ""
        ms = int(self.untold * 1000)
        self.untold -= ms / 1000
        if not is_childless():
            return ""
        self.told += ms
        return ',"waited":%d' % self.told


def nudge():
    """Have the main thread run the handlers of signals that have come. Returns whether this is another thread."""
    if _get_ident() == _main.ident:
        return False
    # The program may use this signal itself.
    if _getsignal(_NUDGE) is nudged:
        _kill(_main.ident, _NUDGE)
    return True


def nudged(_number, _frame):
    pass


def rests(frame):
    """Whether the thread with this frame is an idle worker of an executor, or waits for another thread."""
    code = frame.f_code
    limit = _PLACES.get(code)
    if limit is not None:
        return not limit or frame.f_locals.get(limit) in (None, -1)
    executors = sys.modules.get("concurrent.futures.thread")
    if code is getattr(getattr(executors, "_worker", None), "__code__", None):
        return frame.f_locals.get("work_item") is None
    return False


def next_timer():
    """In how many seconds the next timer of this process may fire; `None` if it has none. (Timers of CPU time don't fire
    while it waits, and whoever reads a `timerfd` doesn't wait for tools.)"""
    real = _getitimer(_REAL)[0]
    if real:
        return real
    try:
        with _open("/proc/self/timers") as timers:
            return AGAIN if timers.read(1) else None
    except OSError:
        return AGAIN


def is_childless():
    """Whether this process has no children."""
    try:
        _waitid(*_CHILDREN)
    except ChildProcessError:
        return True
    return False


def is_alone():
    """Whether this process has no children, and no threads that Python doesn't know."""
    try:
        return is_childless() and len(_listdir("/proc/self/task")) == len(_frames())
    except OSError:
        return False


class Selector:
    """Takes the place of the `select` of an event loop's selector while tool calls of the loop are outstanding."""

    def __init__(self, selector, waits):
        self.plain = selector.select
        self.map = selector.get_map()
        self.block = waits.block

    def __call__(self, timeout=None):
        if timeout is None and len(self.map) <= FEWEST:
            return self.block(self.plain)
        return self.plain(timeout)


def watch(loop, waits):
    """Notice when this event loop has nothing to wait for but tool calls. Returns what `unwatch` takes."""
    from selectors import BaseSelector

    selector = getattr(loop, "_selector", None)
    if isinstance(selector, BaseSelector) and "select" not in getattr(selector, "__dict__", ("select",)):
        selector.select = Selector(selector, waits)
        return selector
    return None


def unwatch(selector):
    """Take `watch` back."""
    if selector is not None:
        selector.__dict__.pop("select", None)
