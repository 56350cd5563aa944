"""Runs a job's program inside its sandbox: `__main__`, streams, tools, values, errors; one process, one channel.

The zygote loads this module and its parts (in the order of `python/mod.rs`), makes the `Harness` and rehearses it
before it freezes its heap: a forked child finds everything made, and copies only the pages that it writes. The child
gives it the job's end of a Unix stream socketpair (`adopt`) and calls `serve`, which never returns.

Nothing here is a wall: the program can reach all of it. The runner believes only what comes from the kernel.
"""

import _socket
import _thread
import atexit
import builtins
import fcntl
import gc
import linecache
import os
import struct
import sys
import threading
import types
import weakref

import harness_channel
import harness_code
import harness_docs
import harness_errors
import harness_inputs
import harness_libraries
import harness_show
import harness_streams
import harness_tools
import harness_traceback
import harness_waits
import json_forms
import tool_text
from _frozen_importlib_external import SourceFileLoader
from harness_channel import Channel, Interrupts, encode
from harness_errors import ToolError

PARTS = (harness_errors, harness_waits, harness_channel, harness_inputs, harness_traceback, harness_code, harness_show)
PARTS += (json_forms, tool_text, harness_streams, harness_docs, harness_tools, harness_libraries)
STARTED = encode({"op": "started"})
DONE_OK = encode({"op": "done", "how": "ok"})
MEMORY = {"op": "done", "how": "memory", "error": {"type": "MemoryError", "message": "", "traceback": ""}}
DONE_MEMORY, OVER_MEMORY = encode(MEMORY), encode({**MEMORY, "over": True})
LOWEST_FD = 200
# Bytes that are freed when memory has run out, so that the error can be reported. They are never touched, and `bytes`
# uses calloc (unlike `bytearray`), so until then they take address space only.
RESERVE = 4 << 20
NAME = "main.py"  # Of the program that the zygote rehearses.
# Types of a program's global objects that `finish` does not let go of.
KEPT = frozenset(
    (types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType, type, type(None))
    + (str, bytes, bytearray, int, float, bool, complex, list, tuple, dict, set, frozenset)
)

_compile, _driven, _describe = harness_code.compile_program, harness_code.driven, harness_code.describe
_getpid, _exit = os.getpid, os._exit
_shutdown_threads, _run_atexit = threading._shutdown, atexit._run_exitfuncs
_eval, _get_ident = eval, _thread.get_ident


def preload():
    """Import what most programs need. Without this, their first use imports it, which costs milliseconds."""
    import _ast  # noqa: F401
    import select  # noqa: F401


class Harness:
    """The process of one sandbox, with a fresh job's single run or a session's many."""

    def __init__(self, workdir):
        self.pid = _getpid()
        self.interrupts = Interrupts()
        self.channel = Channel(self.interrupts)
        self.streams = harness_streams.Streams()
        self.hidden = frozenset(id(part.__dict__) for part in PARTS) | {id(globals())}
        self.flags = self.shown = 0
        self.tools = {}
        self.loop = None
        self.session = False
        self.reserve = bytes(RESERVE)
        os.register_at_fork(after_in_child=self.channel.abandon)
        self.interrupts.before = lambda: harness_streams.flush(self.streams.out)
        for part in PARTS + (sys.modules[__name__],):
            sys.modules.pop(part.__name__, None)  # A program's own module may be called `harness`.
        harness_traceback.install()
        self.make_main(workdir)
        self.registries = self.find_registries()
        self.at_rest = self.endings()

    def adopt(self, fd):
        """Take the channel, in the process that is to run programs."""
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LOWEST_FD)
        os.close(fd)
        gc.enable()
        self.pid = self.interrupts.pid = _getpid()
        self.channel.open_on(high)

    def make_main(self, here):
        self.zygote = sys.modules.get("__main__")
        self.main = main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        self.globals = main.__dict__
        self.here, self.name = here, NAME
        self.globals.update(__annotations__={}, __builtins__=builtins, __cached__=None)

        def display(*objects, raw=False, include=None, exclude=None, **_ignored):
            """Show objects to the client: rich where they have a rich form. `raw=True`: they are MIME bundles already.
            `include` and `exclude` name forms by their MIME types."""
            self.display(objects, raw, include, exclude)

        # It is a function of `builtins` and can be found there: programs copy and pickle what they see.
        display.__module__ = "builtins"
        display.__qualname__ = "display"
        self.globals.update(display=display, ToolError=ToolError)
        builtins.display, builtins.ToolError = display, ToolError
        self.catalog = harness_docs.install()
        self.forgotten = harness_tools.Forgotten(self.globals, self.hidden)

        harness_libraries.Finder(harness_libraries.replacements(self.display, self.own_loop))
        if not hasattr(builtins, "exit"):
            builtins.exit = builtins.quit = sys.exit
        sys.argv = [NAME]
        self.rename(NAME)
        sys.path.insert(0, here)

    def rehearse(self):
        """Run a small program, whose output goes nowhere: the page faults of a run then happen before the run comes."""
        message = encode({"op": "run", "code": "print(1 + 1)", "env": {}, "tools": [], "session": False, "soft_ms": None})
        channel = self.channel
        real, fds = channel.sock, os.pipe()
        channel.sock, other = _socket.socketpair()
        rights = struct.pack("3i", fds[0], fds[1], fds[1])
        other.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        channel.send(self.run(*channel.next_run())[0])
        channel.sock.close()
        other.close()
        channel.sock = real
        for fd in fds:
            os.close(fd)
        self.streams.prepare()

    def serve(self):
        while True:
            try:
                data, code = self.run(*self.channel.next_run())
            except MemoryError:  # The program and its inputs do not fit, and are not whole.
                self.reserve = None
                data, code, self.session = STARTED + OVER_MEMORY, 1, False
            self.channel.send(data)
            if not self.session:
                if self.linger:
                    # The runner, which has asked for this, kills the process now. Exiting meanwhile would only keep a
                    # processor busy that the runner needs: to tear an interpreter's memory down takes longer than most
                    # programs.
                    self.channel.sock.recv(1)
                _exit(code)
            self.error = self.value = None
            self.streams.prepare()

    def run(self, message, fds):
        """Run a program to its end; returns the "done" message and the exit status."""
        interrupts, channel = self.interrupts, self.channel
        self.session = message.get("session", False)
        self.linger = message.get("linger", False)
        self.shown = 0
        self.value = self.error = None
        if self.reserve is None:
            try:
                self.reserve = bytes(RESERVE)
            except MemoryError:
                pass
        interrupts.seen = interrupts.late = False
        self.streams.attach(fds, message.get("follow", False))
        channel.start_run({spec["name"] for spec in message.get("tools") or ()})
        how, code = "ok", 0
        try:
            try:
                interrupts.arm()
                interrupts.running = True
                self.execute(message)
            except BaseException as error:
                how, code = self.classify(error)
            if how != "interrupted":
                self.display(harness_show.open_figures())
                if not self.session:
                    self.finish()
        except BaseException as error:
            how, code = self.classify(error)
        interrupts.running = False
        if _getpid() != self.pid:
            self.leave_child(code)
        channel.end_run()
        self.streams.finish()
        return self.report(how, code), code

    def execute(self, message):
        env, tools, source = message.get("env"), message.get("tools"), message["code"]
        inputs = harness_inputs.take(message) if "inputs" in message else None
        name = message.get("name", NAME)
        if name != self.name:
            self.rename(name)
        if message.get("written") and not source.isascii():
            harness_code.heed_encoding(self.path, source)
        if source.startswith("\ufeff"):
            source = source[1:]  # A byte-order mark, which a file may begin with.
        if self.session:
            for alias, tool in self.tools.items():
                if self.globals.get(alias) is tool:
                    del self.globals[alias]
        if env:
            os.environ.update(env)
            if "TZ" in env:
                import time

                time.tzset()
        if tools or self.session:
            texts, blocking = message.get("texts", ""), message.get("sync_tools", False)
            self.tools = harness_tools.make_tools(self.channel, self.catalog, tools, texts, blocking)
            self.globals.update(self.tools)
        lines = harness_code.source_lines(source)
        linecache.cache[name] = linecache.cache[self.path] = (len(source), None, lines, name)
        self.channel.send(STARTED)
        if inputs:
            harness_inputs.bind(inputs, self.globals)
        codes, last, flags = _compile(source, name, self.flags)
        if self.session:
            self.flags = flags & harness_code.FUTURES
        try:
            if _driven(last) or any(map(_driven, codes)):
                value = self.drive(codes, last)
            else:
                value = None
                for code in codes:
                    _eval(code, self.globals)
                if last is not None:
                    value = _eval(last, self.globals)
        finally:
            if not self.session and "asyncio.events" in sys.modules:
                self.end_loops()
        if value is not None:
            self.value = harness_show.bundle(value)
            if len(self.value) == 1:
                harness_show.shows_itself(value)
            if harness_show.is_figure(value):
                harness_show.close_figure(value)

    def rename(self, name):
        """Set the names by which a program knows its file, as `python NAME` does."""
        if sys.argv[:1] == [self.name]:
            sys.argv[0] = name
        self.name = name
        self.path = self.globals["__file__"] = os.path.join(self.here, name)
        self.globals["__loader__"] = SourceFileLoader("__main__", self.path)
        sys.orig_argv = [sys.executable, name]

    def own_loop(self, make=True):
        """The loop of the program's top level, in the thread that runs it; a session keeps it, and so its tasks, over
        runs."""
        if _get_ident() != self.interrupts.home or _getpid() != self.pid or not self.interrupts.running:
            return None
        if make and (self.loop is None or self.loop.is_closed()):
            import asyncio

            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop

    def end_loops(self):
        """End the program's loop, and the tasks that go on. Note those of another loop that its thread has: functions
        such as `asyncio.gather` take that one if none runs."""
        import asyncio
        from asyncio.runners import _cancel_all_tasks

        loop = self.loop
        policy = getattr(asyncio.events, "_event_loop_policy", None)
        other = getattr(getattr(policy, "_local", None), "_loop", None)
        if other is not None and other is not loop and not other.is_closed():
            self.forgotten.see_tasks(asyncio.all_tasks(other))
        if loop is not None and not loop.is_closed():
            self.forgotten.see_tasks(asyncio.all_tasks(loop))
            _cancel_all_tasks(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            asyncio.set_event_loop(None)
            loop.close()

    def drive(self, codes, last):
        """Run a program that awaits at its top level."""
        import asyncio

        loop = self.own_loop()
        asyncio.set_event_loop(loop)
        task = loop.create_task(self.await_all(codes, last))
        self.interrupts.task = task
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError as error:
            if not self.interrupts.seen:
                raise
            while isinstance(error.__context__, asyncio.CancelledError):  # The innermost: where it was waiting.
                error = error.__context__
            raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
        finally:
            self.interrupts.task = None
            if not task.done():
                task.cancel()
                loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            if not task.cancelled():
                task.exception()

    async def await_all(self, codes, last):
        value = None
        for code in codes + [last] if last is not None else codes:
            value = _eval(code, self.globals)
            if _driven(code):
                value = await value
        return value if last is not None else None

    def display(self, objects, raw=False, include=None, exclude=None):
        for value in objects:
            if not raw and harness_show.shows_itself(value):
                continue
            shown = harness_show.as_bundle(value) if raw else harness_show.bundle(value)
            shown = harness_show.chosen(shown, include, exclude)
            if harness_show.is_figure(value):
                harness_show.close_figure(value)
            self.streams.out.flush()
            if self.channel.open and shown:
                self.channel.send(self.bounded({"op": "display", "data": shown}, "data"))

    def bounded(self, message, key):
        """Encode one frame. Of the bundle `message[key]`, only forms go out that fit into what one run may show."""
        data = encode(message)
        if message.get(key) is not None:
            left = harness_show.LARGEST_BUNDLES - self.shown
            if len(data) > left:  # What is around the forms, and what says which are left out, has less than 1 KiB.
                data = encode(dict(message, **{key: harness_show.fitting(message[key], left - 1024)}))
            self.shown += len(data)
        return data

    def classify(self, error):
        """How to report a run that ended with this exception, and its exit status."""
        if isinstance(error, SystemExit):
            code = error.code
            if code is None or isinstance(code, int):
                return "exit", int(code or 0) & 0xFF
            try:
                print(code, file=sys.stderr)
            except Exception:
                pass
            return "exit", 1
        self.value = None
        memory = isinstance(error, MemoryError) and not isinstance(error, ToolError)
        if memory:
            self.reserve = None
        self.error = _describe(error, self.hidden, self.globals)
        if memory:
            return "memory", 1
        if isinstance(error, KeyboardInterrupt):
            return "interrupted", 1
        hook = getattr(sys, "excepthook", sys.__excepthook__)
        if hook is not sys.__excepthook__:
            try:
                hook(type(error), error, error.__traceback__)
            except Exception:
                pass
        return "raised", 1

    def finish(self):
        """Do what an interpreter does at its end, as far as a program can tell: threads, `atexit`, last references."""
        if self.endings() != self.at_rest:
            self.interrupts.seen = False
            _shutdown_threads()
            if self.interrupts.seen:
                raise KeyboardInterrupt  # Some versions of Python only complain.
            try:
                _run_atexit()
            except Exception:
                pass
        if len(threading._active) == 1:
            names = self.globals
            for name in [name for name, value in names.items() if type(value) not in KEPT]:
                if not name.startswith("__"):
                    names[name] = None

    def endings(self):
        """Count what waits for the interpreter's end. What the zygote has registered need not run, which would cost
        page faults."""
        return (
            atexit._ncallbacks(),
            len(threading._active),
            len(threading._threading_atexits),
            sum(map(len, self.registries)),
        )

    @staticmethod
    def find_registries():
        """Where modules that the zygote loaded keep what their `atexit` functions work on."""
        places = (
            ("logging", "_handlerList"),
            ("multiprocessing.util", "_finalizer_registry"),
            ("multiprocessing.process", "_children"),
            ("concurrent.futures.thread", "_threads_queues"),
        )
        found = [getattr(sys.modules.get(module), name, ()) for module, name in places]
        return found + [getattr(weakref.finalize, "_registry", ())]

    def leave_child(self, code):
        """End a child that the program has forked and that has run to the program's end. It reports nothing."""
        if self.error is not None:
            harness_streams.flush(sys.stdout)
            try:
                sys.stderr.write(self.error["traceback"])
            except Exception:
                pass
        self.streams.finish()
        _exit(code)

    def report(self, how, code):
        """The frame that ends the run."""
        try:
            notes = self.forgotten.notes(len(self.tools))
        except MemoryError:
            notes = []
        if how == "ok" and self.value is None and not notes:
            return DONE_OK
        message = {"op": "done", "how": how}
        if notes:
            message["notes"] = notes
        if how == "exit":
            message["code"] = code
        if self.error is not None:
            message["error"] = self.error
        if self.value is not None:
            message["value"] = self.value
        try:
            return self.bounded(message, "value")
        except MemoryError:
            return DONE_MEMORY
