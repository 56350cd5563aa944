"""The zygote: a warm interpreter that jobs' processes are forked from.

It loads the harness and the preload list, freezes its heap, and then forks on request. It is single-threaded and never
sees a byte of any job: requests carry descriptors only. Descriptor 3 is a sequenced-packet socket to the runner:

  runner -> zygote   first: one JSON object (see `Zygote.__init__`); then per sandbox `u32` number, with descriptors:
                     the job's end of its channel, and (with the inner wall) its pid, mount, ipc, uts and user namespace
  zygote -> runner   first: one JSON object `{"version", "preloaded", "missing", "threads", "vm", "data"}`;
                     then per request `u32` number, `i32` errno, `i32` pid; on success the child's pidfd, if the kernel
                     has any

A child is forked with CLONE_PARENT, which makes it a child of the runner: the kernel reports its exit status and usage
to the runner. `os.fork` can't do that, so this module makes the system call itself. gVisor's kernel ignores the flag.
There, a child is forked twice and orphaned, and orphans become children of the runner, too.

A child costs time for its pages: the kernel copies each page that the child writes to, and Python writes to nearly
every object that it reads, because it counts references. So the zygote makes and rehearses nearly everything before it
forks. It leaves the interpreter's fork hooks out: in a process with one thread, no other thread holds a lock, and
`Zygote.renew` seeds anew what must be.

This file is run as one program with `zygote_kernel.py`, which stands before it.
"""

import _socket
import gc
import json
import os
import site
import struct
import sys
import types

CONTROL = 3
READY = b'{"op":"ready"}'

# What many programs do with a preloaded module. The zygote does it once, so that the module fills its caches and
# imports what it imports late. The child that finds out which pages children write does it again, so that these pages
# are among them. If pages can't be copied ahead, every child does it, before its program comes. (Page faults take most
# of a short program's time.)
REHEARSALS = {
    "numpy": "import numpy as np; a = np.arange(6.0).reshape(2, 3); (a @ a.T).sum(); str(a)",
    "pandas": "import pandas as pd; d = pd.DataFrame({'a': [1, 2], 'b': [3.0, 4.0]}); (d.a * d.b).sum(); d[d.a > 1]; str(d)",
}

# Modules whose fork hooks are not needed in a child of a process with one thread: they make new locks in place of those
# that nobody holds. `Zygote.renew` does what the hooks of `random` do.
HOOKS_LEFT_OUT = frozenset(("threading", "logging", "random", "concurrent.futures.thread", "asyncio.events"))

# How often the zygote runs the harness's code before it forks. In the first runs of a piece of code, the interpreter
# writes notes beside it (its caches and specialized instructions). Every child would have to copy the pages of these
# notes.
REHEARSALS_AHEAD = 20

# After this many forks, the zygote learns which pages children write. The first fork still changes the zygote's own
# heap; all later children find the same heap.
LEARN_AFTER = 1


class Zygote:
    def __init__(self):
        self.control = _socket.socket(fileno=CONTROL)
        setup = json.loads(self.control.recv(1 << 20))
        self.hooks = False
        self.real_register, os.register_at_fork = os.register_at_fork, self.register_at_fork
        harness = self.load(setup["harness"])
        pages = sys.modules.pop("zygote_pages")
        self.reply, self.workdir = struct.Struct("<Iii").pack, setup["workdir"]
        harness.preload()
        sys.path[:] = self.path()
        for name in setup["common"]:
            try:
                __import__(name)
            except Exception:
                pass  # An interpreter built without it. A program that imports it gets the error.
        preloaded, missing = [], []
        for name in setup["preload"]:
            try:
                __import__(name)
                preloaded.append(name)
            except Exception as error:
                missing.append("%s: %s: %s" % (name, type(error).__name__, error))
        self.kernel = kernel = Kernel()
        self.nested = setup["nested"]
        if not self.nested:
            kernel.learn_to_fork()
        self.home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if self.nested else -1
        self.joins = tuple(zip((CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWUSER), ("mount", "ipc", "uts", "user")))
        self.seal = Filter(bytes.fromhex(setup["seal"]))
        kernel.check(kernel.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        if not self.nested:
            kernel.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        self.silence()
        os.environ.pop("LD_BIND_NOW", None)
        self.rehearsals = [compile(REHEARSALS[name], "rehearsal", "exec") for name in preloaded if name in REHEARSALS]
        try:
            self.rehearse()
        except Exception:
            self.rehearsals = []
        # Everything that the modules load, start or register at their first use has happened by now.
        os.register_at_fork = self.real_register
        answer = dict(self.sizes(), version="Python " + sys.version.split()[0], preloaded=preloaded, missing=missing)
        self.hooks = self.hooks or answer["threads"] > 1
        self.random_ssl = sys.modules.get("_ssl") and sys.modules["_ssl"].RAND_add
        self.random_python = "random" in sys.modules and sys.modules["random"].seed
        self.random_numpy = "numpy.random" in sys.modules and sys.modules["numpy.random"].seed
        self.main_thread = sys.modules["threading"].main_thread()
        self.job = harness.Harness(self.workdir)
        for _ in range(REHEARSALS_AHEAD):
            self.renew()
            self.job.rehearse()
        gc.collect()
        gc.disable()
        gc.freeze()
        if kernel.malloc_trim:
            kernel.malloc_trim(0)  # Returns what loading has freed: a fork would copy its page tables.
        self.pages = pages.Pages(kernel)
        self.forks = 0
        for program in ("base", "absent"):
            kernel.filter(Filter(bytes.fromhex(setup[program])))
        self.control.send(json.dumps(answer).encode())

    @staticmethod
    def load(parts):
        for name, source in parts:
            module = types.ModuleType(name)
            module.__file__ = "<thermae %s>" % name
            sys.modules[name] = module
            exec(compile(source, module.__file__, "exec"), module.__dict__)
        return module

    @staticmethod
    def path():
        """The interpreter's path, with the directories of PYTHONPATH (which `-I` leaves out) before its packages. No
        package of theirs takes the place of a module of the standard library."""
        own = [entry for entry in sys.path if entry]
        packages = site.getsitepackages()
        first = next((n for n, entry in enumerate(own) if entry in packages), len(own))
        added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        return own[:first] + [entry for entry in added if entry] + own[first:]

    def register_at_fork(self, **hooks):
        """Stands in for `os.register_at_fork` while modules load. If a module other than those in HOOKS_LEFT_OUT
        registers hooks, all hooks are run."""
        self.real_register(**hooks)
        if sys._getframe(1).f_globals.get("__name__") not in HOOKS_LEFT_OUT:
            self.hooks = True

    def rehearse(self):
        for code in self.rehearsals:
            exec(code, {"__name__": "rehearsal"})

    @staticmethod
    def sizes():
        sizes = {"vm": 0, "data": 0, "threads": 1}
        with open("/proc/self/status") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key in ("VmSize", "VmData"):
                    sizes[key[2:].lower().replace("size", "vm")] = int(value.split()[0]) * 1024
                elif key == "Threads":
                    sizes["threads"] = int(value)
        return sizes

    @staticmethod
    def silence():
        """Flush what libraries have printed while they loaded, and leave children nothing but /dev/null to write to."""
        sys.stdout.flush()
        sys.stderr.flush()
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        if null > 2:
            os.close(null)

    def serve(self):
        """Fork on request. Returns only in a child: the descriptors of its request, the job's channel first."""
        space = _socket.CMSG_SPACE(6 * 4)
        while True:
            request, control, _flags, _address = self.control.recvmsg(16, space, _socket.MSG_CMSG_CLOEXEC)
            if not request:
                os._exit(0)
            fds = [fd for _level, _type, data in control for fd in struct.unpack("%di" % (len(data) // 4), data)]
            number, problem, pid = struct.unpack("<I", request)[0], 0, 0
            if self.forks == LEARN_AFTER and self.nested and not self.hooks:
                self.learn()
            self.forks += 1
            try:
                pid = self.fork(fds)
                if pid == 0:
                    return fds
            except OSError as error:
                problem = error.errno or 5
            for fd in fds:
                os.close(fd)
            self.answer(number, problem, pid)

    def fork(self, fds):
        kernel = self.kernel
        if not self.nested:
            return kernel.fork(self.hooks)
        kernel.check(kernel.setns(fds[1], CLONE_NEWPID), "join the pid namespace")
        try:
            pid = kernel.fork(self.hooks)
        except BaseException:
            kernel.setns(self.home, CLONE_NEWPID)
            raise
        if pid:
            kernel.check(kernel.setns(self.home, CLONE_NEWPID), "leave the pid namespace")
        return pid

    def answer(self, number, problem, pid):
        pidfd = self.kernel.pidfd.value
        if problem or pidfd < 0:
            self.control.send(self.reply(number, problem, pid))
        else:
            rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", pidfd))]
            self.control.sendmsg([self.reply(number, 0, pid)], rights)
            os.close(pidfd)

    def become_job(self, fds, ahead=False):
        """The child's way into its sandbox: join the namespaces, drop the capabilities, close descriptors, load the
        seal. Then it says that it is ready. `ahead`: this child is to show which pages children write. It does not
        rehearse here, which would add pages that other children don't write."""
        kernel, channel = self.kernel, fds[0]
        try:
            populated = self.pages.populate()
            os.setsid()
            if self.nested:
                for fd, (kind, name) in zip(fds[2:], self.joins):
                    kernel.check(kernel.setns(fd, kind), name)
            os.chdir(self.workdir)
            kernel.drop_capabilities()
            self.control.detach()
            kernel.close_range(3, channel - 1)
            kernel.close_range(channel + 1, (1 << 20) - 1)
            kernel.filter(self.seal)
            self.renew()
            job = self.job
            job.adopt(channel)
            if not populated and not ahead:
                self.rehearse()
                job.rehearse()
            os.write(job.channel.fd, struct.pack("<I", len(READY)) + READY)
        except BaseException as error:
            text = json.dumps({"op": "failed", "reason": "%s: %s" % (type(error).__name__, error)}).encode()
            try:
                os.write(channel, struct.pack("<I", len(text)) + text)
            finally:
                os._exit(70)
        return job

    def learn(self):
        try:
            self.pages.learn(self.greet, self.walk)
        except Exception:
            pass  # Then every child rehearses instead.

    @staticmethod
    def greet(channel):
        """Send a small program, as the runner does."""
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        run = {"op": "run", "code": "print(1 + 1)", "env": {}, "tools": [], "session": False, "linger": True, "soft_ms": None}
        data = json.dumps(run).encode()
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("3i", null, null, null))]
        channel.sendmsg([struct.pack("<I", len(data)) + data], rights)
        os.close(null)

    def walk(self, channel):
        """Do what a job's process does, without a sandbox, to the end of that program. Returns the channel's socket."""
        self.nested = False
        job = self.become_job([channel], ahead=True)
        self.rehearse()
        job.channel.send(job.run(*job.channel.next_run())[0])
        return job.channel.sock

    def renew(self):
        """Renew what two processes must not share although they are copies: random numbers, and the kernel's id of the
        thread."""
        if self.random_ssl:
            self.random_ssl(os.urandom(32), 32.0)
        if self.random_python:
            self.random_python()
        if self.random_numpy:
            self.random_numpy()
        self.main_thread._set_native_id()


def main():
    zygote = Zygote()
    fds = zygote.serve()
    job = zygote.become_job(fds)
    del zygote, fds
    try:
        job.serve()
    except BaseException:
        os._exit(70)


main()
