"""The runner's side of the channel, for tests. Its processes are forked from this one, as a zygote forks those of
jobs."""

import array
import importlib.util
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
import unittest
import warnings

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "runner", "src", "languages", "python"))

for _part in ("json_forms", "tool_text"):  # `python/mod.rs` takes them from the package for Python, too.
    _path = os.path.join(ROOT, "sdk", "python", "src", "thermae", "_%s.py" % _part)
    _spec = importlib.util.spec_from_file_location(_part, _path)
    sys.modules[_part] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_part])

import harness  # noqa: E402

harness.preload()

PATIENCE = 20.0
ROOMS = "/dev/shm"  # The files of sandboxes are in memory, too.
WARNINGS = warnings.filters[:]  # unittest changes them.


class Outcome:
    """What one run gave."""

    def __init__(self):
        self.messages = []
        self.calls = []
        self.displays = []
        self.stdout = b""
        self.stderr = b""
        self.done = None

    how = property(lambda self: self.done["how"])
    code = property(lambda self: self.done.get("code"))
    error = property(lambda self: self.done.get("error"))
    value = property(lambda self: self.done.get("value"))
    out = property(lambda self: self.stdout.decode("utf-8"))
    err = property(lambda self: self.stderr.decode("utf-8"))


class Process:
    """One forked child that serves, and its channel."""

    def __init__(self):
        self.programs = 0
        self.room = tempfile.mkdtemp(prefix="thermae-harness-", dir=ROOMS)
        self.channel, child = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.channel.close()
                os.chdir(self.room)
                fd = child.detach()
                null = os.open("/dev/null", os.O_RDWR)
                for std in (0, 1, 2):
                    os.dup2(null, std)
                warnings.filters[:] = WARNINGS
                job = harness.Harness(os.getcwd())
                job.adopt(fd)
                job.rehearse()
                job.serve()
            finally:
                os._exit(99)
        child.close()
        self.status = None
        self.buffer = b""

    def send(self, message, fds=(), texts=()):
        """`texts` follow the message: see `Pending::message`."""
        data = "\0".join([json.dumps(message), *texts, ""] if texts else [json.dumps(message)]).encode()
        data = struct.pack("<I", len(data)) + data
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self.channel.sendmsg([data], control)
        if sent < len(data):
            self.channel.sendall(data[sent:])

    def start(self, code, stdin=b"", tools=(), env=None, session=False, follow=False, inputs=None):
        """Send a run, with the JSON texts of its inputs. Returns the pipes to read its output from."""
        ends = [os.pipe() for _ in range(3)]
        message = {"op": "run", "code": code, "env": env or {}, "session": session, "follow": follow, "soft_ms": None}
        message.update(self.write(code))
        message["tools"] = [{key: one[key] for key in ("name", "alias", "description", "parameters", "others", "raw")} for one in tools]
        schemas = [one[key] for one in tools for key in ("input_schema", "output_schema")]
        texts = list((inputs or {}).values()) + schemas * any(schemas)
        if inputs:
            message["inputs"] = list(inputs)
        self.send(message, [ends[0][0], ends[1][1], ends[2][1]], texts)
        os.close(ends[0][0])
        os.close(ends[1][1])
        os.close(ends[2][1])
        if stdin:
            os.write(ends[0][1], stdin)
        os.close(ends[0][1])
        return ends[1][0], ends[2][0]

    def write(self, code):
        """Write a program to its file, as the runner does."""
        self.programs += 1
        name = "main_%d.py" % self.programs if self.programs > 1 else "main.py"
        with open(os.path.join(self.room, name), "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            file.write(code)
        return {"name": name, "written": True}

    def take(self):
        """The messages that have arrived whole."""
        while len(self.buffer) >= 4:
            size = struct.unpack_from("<I", self.buffer)[0]
            if len(self.buffer) < 4 + size:
                return
            message = json.loads(self.buffer[4 : 4 + size].decode("utf-8"))
            self.buffer = self.buffer[4 + size :]
            yield message

    def follow(self, out, err, answer=None, at=None):
        """Collect until "done" and the end of both pipes. `answer(process, call)` replies to calls, and `at(process,
        outcome)` sees every event."""
        outcome = Outcome()
        wanted = {out: "stdout", err: "stderr", self.channel.fileno(): "channel"}
        deadline = time.monotonic() + PATIENCE
        with selectors.DefaultSelector() as selector:
            for fd in wanted:
                selector.register(fd, selectors.EVENT_READ)
            while selector.get_map() and not (outcome.done and len(selector.get_map()) == 1 and self.channel.fileno() in selector.get_map()):
                events = selector.select(max(0, deadline - time.monotonic()))
                if not events:
                    os.kill(self.pid, signal.SIGKILL)
                    raise AssertionError("no end after %s s: %r %r" % (PATIENCE, outcome.messages, outcome.stderr))
                for key, _ in events:
                    if wanted[key.fd] == "channel":
                        try:
                            data = self.channel.recv(1 << 20)
                        except ConnectionResetError:
                            data = b""
                        if not data:
                            selector.unregister(key.fd)
                        self.buffer += data
                        for message in self.take():
                            outcome.messages.append(message)
                            if message["op"] == "call":
                                outcome.calls.append(message)
                                if answer:
                                    answer(self, message)
                            elif message["op"] == "display":
                                outcome.displays.append(message["data"])
                            elif message["op"] == "done":
                                outcome.done = message
                    else:
                        data = os.read(key.fd, 1 << 20)
                        if data:
                            setattr(outcome, wanted[key.fd], getattr(outcome, wanted[key.fd]) + data)
                        else:
                            selector.unregister(key.fd)
                            os.close(key.fd)
                    if at:
                        at(self, outcome)
        return outcome

    def run(self, code, answer=None, at=None, **options):
        return self.follow(*self.start(code, **options), answer=answer, at=at)

    def interrupt(self):
        os.kill(self.pid, signal.SIGINT)

    def wait(self):
        """Wait for the process. Returns its exit status as `subprocess` gives it."""
        if self.status is None:
            _pid, status = os.waitpid(self.pid, 0)
            self.status = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        return self.status

    def close(self):
        self.channel.close()
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.wait()
        shutil.rmtree(self.room, ignore_errors=True)


def tool(name, params=None, raw=False, description="", alias=None, takes="", gives="", others=None):
    """`params` are names of parameters that must be given, or whole parameters; by default, those of `takes`. `takes`
    and `gives` are the JSON texts of its schemas."""
    try:
        schema = json.loads(takes)
        listed = dict(schema["properties"])
        described = [{"name": one, "required": one in schema.get("required", ())} for one in listed]
    except (ValueError, TypeError, KeyError, RecursionError):
        described = None
    if params is None:
        others, params = described is None if others is None else others, described or ()
    one = {"name": name, "alias": alias or name, "description": description, "raw": raw, "others": bool(others)}
    one["parameters"] = [{"name": one, "required": True} if isinstance(one, str) else one for one in params]
    return dict(one, input_schema=takes, output_schema=gives)


def reply(process, call, value):
    process.send({"op": "result", "call": call["call"], "ok": value})


def fail(process, call, error):
    """`error` is a text, or an object with `message` and, if there are any, `type` and `data`."""
    process.send({"op": "result", "call": call["call"], "error": error})


class Case(unittest.TestCase):
    """`self.fresh(code)` runs a fresh job; `self.session()` opens a session's process."""

    def process(self):
        process = Process()
        self.addCleanup(process.close)
        return process

    session = process

    def fresh(self, code, **options):
        process = self.process()
        outcome = process.run(code, **options)
        outcome.status = process.wait()
        outcome.room = process.room
        return outcome

    def ok(self, code, **options):
        outcome = self.fresh(code, **options)
        self.assertEqual(outcome.how, "ok", (outcome.error or {}).get("traceback"))
        self.assertEqual(outcome.status, 0)
        self.assertEqual(outcome.err, "")
        return outcome

    def raised(self, code, kind, **options):
        outcome = self.fresh(code, **options)
        self.assertEqual(outcome.how, "raised", outcome.done)
        self.assertEqual(outcome.error["type"], kind, outcome.error)
        self.assertEqual(outcome.status, 1)
        return outcome
