"""The job's channel as the program's process sees it: framing, outstanding tool calls, and the soft time-out.

A message is a `u32` little-endian length and that many bytes of one JSON object. In a `run` message, a NUL and further
texts may follow the object; they become its `texts`. Several threads and event loops may call tools at once. The one
that reads hands every result to the caller that waits for it, by the call's number, in any order.

What the program may replace (`json`, `os`) is bound here, before it runs.
"""

import _signal
import _socket
import _thread
import json
import os
import signal
import struct
import sys
import threading

import harness_waits
from harness_errors import ToolError
from json_forms import written

LARGEST_MESSAGE = 16 << 20
# What one read asks for. For a larger buffer malloc maps memory anew each time (its M_MMAP_THRESHOLD is 128 KiB): five
# system calls and some page faults for each small result.
PIECE = 32 << 10

_loads = json.JSONDecoder().decode
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_dumps_strict = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_header = struct.Struct("<I")
_getpid, _exit = os.getpid, os._exit
_get_ident = _thread.get_ident
CALL = b'{"op":"call","call":%d,"name":%b%b,"arguments":%b}'
GONE = object()  # What a waiter gets in place of a result if the run that called the tool has ended.


def frame(data):
    return _header.pack(len(data)) + data


def encode(message):
    """One frame. Lone surrogates (odd file names) become `?`: the other side wants UTF-8."""
    return frame(_dumps(message).encode("utf-8", "replace"))


def ended(name):
    """The error of a call whose run has ended."""
    return ToolError("tool %s: the run that called it has ended" % name, name)


def unreadable(text, error):
    """A stand-in for a result that Python can't read (too deep, too long a number): the caller that waits for it must
    get an answer."""
    number = text[:64].partition('"call":')[2].partition(",")[0]
    return {"op": "result", "call": int(number), "error": "the result can't be read: %s" % error}


class Channel:
    """The channel's framing, and the outstanding tool calls. Several threads and event loops may use it at once."""

    def __init__(self, interrupts):
        self.fd = -1
        self.interrupts = interrupts
        self.sock = None
        self.buffer = bytearray()
        self.write_lock = _thread.allocate_lock()
        self.turn = threading.Condition(_thread.allocate_lock())
        self.reading = None  # What the blocked thread that reads for all waits for.
        self.waiting = {}
        self.loops = {}
        self.run = 0  # The number of runs that have ended.
        self.calls = 0
        self.names = ()
        self.open = False
        self.waits = harness_waits.Waits(self.is_idle, lambda data: self.send(frame(data)))

    def open_on(self, fd):
        """Use the channel at descriptor `fd`."""
        self.fd = fd
        self.sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)

    def send(self, data):
        """Send all of `data`. Interrupts are put off meanwhile: half a message would spoil every later one."""
        main = self.interrupts.hold()
        try:
            with self.write_lock:
                self.write(data)
        finally:
            if main:
                self.interrupts.release()

    def write(self, data):
        """Send all of `data`. The caller holds `write_lock`."""
        sent = self.sock.send(data)
        while sent < len(data):
            sent += self.sock.send(memoryview(data)[sent:])

    def next_run(self):
        """Block for the next `run` message. Other messages belong to a run that is over and are dropped."""
        fds = []
        while True:
            for message in self.messages():
                if message.get("op") == "run":
                    return message, fds
            data, control, flags, _address = self.sock.recvmsg(PIECE, _socket.CMSG_SPACE(12), _socket.MSG_CMSG_CLOEXEC)
            if not data:
                _exit(0)
            if flags & _socket.MSG_CTRUNC:
                # The program holds too many descriptors for those of the run, whose output would be lost.
                _exit(71)
            for level, kind, raw in control:
                if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                    fds.extend(struct.unpack("%di" % (len(raw) // 4), raw[: len(raw) // 4 * 4]))
            self.buffer += data

    def messages(self):
        """Whole messages in the buffer; taken out as they are yielded."""
        buffer = self.buffer
        while len(buffer) >= 4:
            end = 4 + _header.unpack_from(buffer)[0]
            if len(buffer) < end:
                return
            text, _, texts = buffer[4:end].decode("utf-8").partition("\0")
            del buffer[:end]
            try:
                message = _loads(text)
            except (ValueError, RecursionError) as error:
                message = unreadable(text, error)
            if texts:
                message["texts"] = texts
            yield message

    def call(self, name, arguments, waiter):
        """Send a tool call and return its number. `waiter(ok, value)` is called with the result."""
        run = self.run
        if not self.open or _getpid() != self.interrupts.pid:
            raise ToolError("tool %s: tools answer only the job's own process, while it runs" % name, name)
        if name not in self.names:
            raise ToolError("tool %s: not one of the tools of the job that is running" % name, name)
        try:
            text = written(arguments, _dumps_strict, "argument {}").encode("utf-8")
            head = _dumps(name).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("tool %s: arguments are not valid Unicode (a lone surrogate)" % name) from None
        except (TypeError, ValueError) as error:
            raise type(error)("tool %s: %s" % (name, error)) from None
        if len(text) > LARGEST_MESSAGE - 1024 - len(head):
            raise ValueError("tool %s: arguments are %d bytes, more than %d" % (name, len(text), LARGEST_MESSAGE))
        main = self.interrupts.hold()
        try:
            with self.write_lock:
                # A thread may get here when the run is over, or the next one has begun, which has numbers of its own.
                if self.run != run:
                    raise ended(name)
                self.calls = number = self.calls + 1
                self.waiting[number] = waiter
                self.write(frame(CALL % (number, head, self.waits.waited().encode("ascii"), text)))
                return number
        finally:
            if main:
                self.interrupts.release()

    def receive(self):
        """Read what is there, without blocking, and hand the results out. The caller holds `turn`."""
        while True:
            try:
                data = self.sock.recv(PIECE, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            if not data:
                _exit(70)
            self.buffer += data
            if len(data) < PIECE:
                break
        for message in self.messages():
            if message.get("op") == "result":
                self.waits.got += 1
                waiter = self.waiting.pop(message.get("call"), None)
                if waiter is not None:
                    if "error" in message:
                        waiter(False, message["error"])
                    else:
                        waiter(True, message.get("ok"))
            elif message.get("op") == "again":
                self.waits.again = True
        self.turn.notify_all()

    def is_idle(self):
        """Whether no tool call is outstanding."""
        return not self.waiting or not self.open

    def readable(self):
        """An event loop calls this when there is something to read."""
        main = self.interrupts.hold()
        try:
            with self.turn:
                if self.open and self.reading is None:
                    self.receive()
        finally:
            if main:
                self.interrupts.release()

    async def ask(self, name, arguments):
        """Call a tool from a coroutine: `(ok, value)`."""
        from asyncio import get_running_loop

        loop = get_running_loop()
        future = loop.create_future()
        home = _get_ident()

        def waiter(ok, value):
            if _get_ident() == home:
                complete(ok, value)
            else:
                loop.call_soon_threadsafe(complete, ok, value)

        def complete(ok, value):
            if not future.done():
                if value is GONE:
                    future.cancel()
                else:
                    future.set_result((ok, value))

        number = self.call(name, arguments, waiter)
        reads = False
        try:
            # An interrupt within `add_reader` would leave a selector that takes the descriptor for new, and a kernel
            # that knows it.
            main = self.interrupts.hold()
            try:
                count, selector = self.loops.get(loop, (0, None))
                if not count:
                    loop.add_reader(self.fd, self.readable)
                    selector = harness_waits.watch(loop, self.waits)
                self.loops[loop] = count + 1, selector
                reads = True
            finally:
                if main:
                    self.interrupts.release()
            return await future
        finally:
            main = self.interrupts.hold()
            try:
                self.waiting.pop(number, None)
                count, selector = self.loops.get(loop, (1, None))
                if reads and count > 1:
                    self.loops[loop] = count - 1, selector
                elif reads and self.loops.pop(loop, None):
                    harness_waits.unwatch(selector)
                    if not loop.is_closed():
                        loop.remove_reader(self.fd)
            finally:
                if main:
                    self.interrupts.release()

    def ask_sync(self, name, arguments):
        """Call a tool and block this thread: `(ok, value)`. If several threads wait, one reads for all."""
        import select

        answer = []
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)

        def wait(seconds):
            return poll.poll(None if seconds is None else seconds * 1000)

        def wait_for_reader(seconds):
            # The reader may hand the answer out after a wait has ended and before this thread holds `turn` again: then
            # nobody would end a second wait.
            return answer or self.reading is None or self.turn.wait(seconds)

        number = self.call(name, arguments, lambda ok, value: answer.append((ok, value)))
        try:
            while not answer:
                mine = False
                try:
                    with self.turn:
                        if answer:
                            break
                        if self.reading is not None:
                            self.waits.block(wait_for_reader)
                            continue
                        # `mine` is set first: an interrupt may come between any two steps, and nobody reads while
                        # `reading` is left set.
                        mine = True
                        self.reading = answer
                    self.waits.block(wait)
                finally:
                    if mine:
                        main = self.interrupts.hold()
                        try:
                            with self.turn:
                                # A reader that the last run left says nothing about this run's: with two of them, one
                                # could wait for what the other has read.
                                if self.reading is answer:
                                    self.reading = None
                                # What comes after the end of the run is the next run, and not this thread's to read.
                                if self.open and not answer:
                                    self.receive()
                                else:
                                    self.turn.notify_all()
                        finally:
                            if main:
                                self.interrupts.release()
        finally:
            self.waiting.pop(number, None)
        if answer[0][1] is GONE:
            raise ended(name)
        return answer[0]

    def start_run(self, names):
        """Begin a run: calls count from 1 again, and only the tools in `names` may be called."""
        self.calls = 0
        self.waits.start_run()
        self.names = names
        # The last run's reader, if it is still there, has its end as its answer, and reads nothing.
        self.reading = None
        self.open = True

    def end_run(self):
        """End a run: drop its outstanding calls, which nobody answers any more."""
        # With these held, nobody is about to read or to call.
        with self.turn, self.write_lock:
            self.open = False
            self.run += 1
            waiting, self.waiting = self.waiting, {}
            for waiter in waiting.values():
                waiter(False, GONE)
            self.turn.notify_all()
        while self.loops:
            loop, (_count, selector) = self.loops.popitem()
            harness_waits.unwatch(selector)
            if loop.is_running():
                loop.call_soon_threadsafe(loop.remove_reader, self.fd)
            elif not loop.is_closed():
                loop.remove_reader(self.fd)

    def abandon(self):
        """Close the channel in a child that the program has forked: two readers of one channel would spoil it for
        both."""
        self.open = self.waits.said = False
        self.waiting = {}
        if self.sock is not None:
            self.sock.close()


class Handler:
    """Stands in for `signal.default_int_handler`. Like that function, it does not become a method of a class that holds
    it, and it is pickled by name."""

    def __init__(self, handle):
        self.handle = handle
        self.__module__ = "signal"
        self.__name__ = self.__qualname__ = "default_int_handler"

    def __call__(self, number, frame):
        self.handle(number, frame)

    def __reduce__(self):
        return self.__name__


class Interrupts:
    """SIGINT is the soft time-out: the program sees `KeyboardInterrupt`, or its awaiting task is cancelled."""

    def __init__(self):
        self.pid = _getpid()
        self.home = _get_ident()
        self.held = 0
        self.late = False
        self.running = False
        self.seen = False
        self.task = None
        self.before = None
        # It replaces the default handler by name, too: `asyncio.run` cancels its task at an interrupt only if this is
        # the handler.
        self.handler = signal.default_int_handler = Handler(self.handle)

    def arm(self):
        _signal.signal(_signal.SIGINT, self.handler)

    def hold(self):
        """Put interrupts off, if this is the main thread. Returns whether `release` has to be called."""
        if _get_ident() != self.home:
            return False
        self.held += 1
        return True

    def release(self):
        self.held -= 1
        if self.late and not self.held:
            self.late = False
            if self.running:
                raise KeyboardInterrupt

    def handle(self, _number, frame):
        if _getpid() != self.pid:
            raise KeyboardInterrupt
        if not self.running:
            return
        self.seen = True
        if self.before is not None:
            self.before()
        if self.held:
            self.late = True
            return
        task = self.task
        if task is not None and not task.done() and not _inside_callback(frame):
            task.cancel()
            task.get_loop().call_soon_threadsafe(_nothing)
            return
        raise KeyboardInterrupt


def _nothing():
    pass


def _inside_callback(frame):
    """Whether an event loop is running the program's code now, rather than waiting."""
    step = sys.modules["asyncio"].Handle._run.__code__
    while frame is not None:
        if frame.f_code is step:
            return True
        frame = frame.f_back
    return False
