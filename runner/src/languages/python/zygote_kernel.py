"""The system calls that the zygote needs and Python lacks. This file stands before `zygote.py` in one program."""

import ctypes
import errno
import itertools
import os
import signal
import struct

SYS_CLONE = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
SYS_CLOSE_RANGE = 436
CLONE_PIDFD, CLONE_PARENT = 0x1000, 0x8000
CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x200000, 0x1000000
CLONE_NEWPID, CLONE_NEWNS = 0x20000000, 0x20000
CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWUSER = 0x8000000, 0x4000000, 0x10000000
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_GET_TID_ADDRESS = 4, 22, 24, 38, 40
THREAD_STACK = 2 << 20  # Bytes: enough for any function of the library at the recursion limit.
ROBUST_LIST = {"x86_64": (273, 274), "aarch64": (99, 100)}[os.uname().machine]


class Filter(ctypes.Structure):
    """`struct sock_fprog`, with its program kept alive beside it."""

    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]

    def __init__(self, code):
        self.code = ctypes.create_string_buffer(code, len(code))
        super().__init__(len(code) // 8, ctypes.addressof(self.code))


class Kernel:
    """The system calls that Python lacks. The GIL is kept over a call, because the child must own it."""

    def __init__(self):
        libc = ctypes.PyDLL(None, use_errno=True)
        api = ctypes.pythonapi
        self.before, self.in_parent, self.in_child = api.PyOS_BeforeFork, api.PyOS_AfterFork_Parent, api.PyOS_AfterFork_Child
        for hook in (self.before, self.in_parent, self.in_child):
            hook.restype = None
        self.syscall, self.setns, self.prctl = libc.syscall, libc.setns, libc.prctl
        self.syscall.restype = ctypes.c_long
        self.syscall.argtypes = [ctypes.c_long] * 6
        self.setns.argtypes = [ctypes.c_int, ctypes.c_int]
        self.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
        self.capset = libc.capset
        self.shrink_stacks(libc)
        self.malloc_trim = getattr(libc, "malloc_trim", None)  # Only glibc has it.
        self.no_capabilities = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        # A second function object, without declared types: converting arguments by them costs more than the system
        # call.
        self.drop = ctypes.PyDLL(None).prctl
        self.capabilities = range(self.count_capabilities())
        self.pidfd = ctypes.c_int(-1)
        self.pidfd_at = ctypes.addressof(self.pidfd)
        self.clone = SYS_CLONE
        self.flags = CLONE_PARENT | CLONE_PIDFD | signal.SIGCHLD
        self.orphans = False
        # glibc keeps the thread's id in memory, where `raise` reads it, and has the kernel write the new one at a fork.
        tid = ctypes.c_ulong(0)
        self.tid_at = 0
        if self.prctl(PR_GET_TID_ADDRESS, ctypes.addressof(tid), 0, 0, 0) == 0 and tid.value:
            if ctypes.c_int.from_address(tid.value).value == os.getpid():
                self.tid_at = tid.value
                self.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID
        head, size = ctypes.c_ulong(0), ctypes.c_ulong(0)
        self.syscall(ROBUST_LIST[1], 0, ctypes.addressof(head), ctypes.addressof(size), 0, 0)
        self.robust = head.value, size.value

    @staticmethod
    def shrink_stacks(libc):
        """Make threads' stacks smaller, unless they ask for more: the limit on data counts a whole stack at once, used
        or not."""
        attributes = ctypes.create_string_buffer(256)  # A `pthread_attr_t`, which has 64 bytes at most.
        if getattr(libc, "pthread_setattr_default_np", None) and libc.pthread_attr_init(attributes) == 0:
            libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(THREAD_STACK))
            libc.pthread_setattr_default_np(attributes)

    @staticmethod
    def count_capabilities():
        try:
            with open("/proc/sys/kernel/cap_last_cap") as file:
                return int(file.read()) + 1
        except (OSError, ValueError):
            return 64

    def check(self, result, what):
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, "%s: %s" % (what, os.strerror(number)))
        return result

    def fork(self, hooks):
        """Returns 0 in the child and the pid in the zygote, where `self.pidfd` is then the child's. `hooks`: run the
        interpreter's fork hooks, as `os.fork` does."""
        ctid, tls = (self.tid_at, 0) if SYS_CLONE == 56 else (0, self.tid_at)
        if hooks:
            self.before()
        clone = self.fork_orphan if self.orphans else self.syscall
        pid = clone(SYS_CLONE, self.flags, 0, self.pidfd_at, ctid, tls)
        if pid == 0:
            if hooks:
                self.in_child()
            self.syscall(ROBUST_LIST[0], self.robust[0], self.robust[1], 0, 0, 0)
            return 0
        number = ctypes.get_errno()
        if hooks:
            self.in_parent()
        if pid < 0:
            raise OSError(number, "clone: %s" % os.strerror(number))
        return pid

    def learn_to_fork(self):
        """Find out by trial whether this kernel gives pidfds and whether it makes a child the runner's. gVisor's does
        neither."""
        pid = self.syscall(SYS_CLONE, self.flags & ~(CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID), 0, self.pidfd_at, 0, 0)
        if pid == 0:
            os._exit(0)
        if pid < 0 and ctypes.get_errno() == errno.EINVAL and self.flags & CLONE_PIDFD:
            self.flags &= ~CLONE_PIDFD
            return self.learn_to_fork()
        self.check(pid, "clone")
        if self.pidfd.value >= 0:
            os.close(self.pidfd.value)
        self.pidfd.value = -1
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            return
        self.orphans = True
        self.flags &= ~(CLONE_PARENT | CLONE_PIDFD)

    def fork_orphan(self, *clone):
        """Make a child of the runner's in another way: a process that has lost its parent becomes one. This doesn't
        work where sandboxes have an init of their own, which would get the orphan."""
        heard, told = os.pipe()
        middle = self.syscall(*clone)
        if middle == 0:
            pid = self.syscall(*clone)
            if pid != 0:
                os.write(told, struct.pack("i", pid if pid > 0 else -ctypes.get_errno()))
                os._exit(0)
        os.close(told)
        pid = middle
        if middle > 0:
            answer = os.read(heard, 4)
            os.waitpid(middle, 0)
            pid = struct.unpack("i", answer)[0] if answer else -errno.ECHILD
            ctypes.set_errno(max(-pid, 0))
        os.close(heard)
        return pid

    def close_range(self, first, last):
        """Like `os.closerange`, which uses the system call only since Python 3.10 and otherwise closes a million
        numbers one by one."""
        if self.syscall(SYS_CLOSE_RANGE, first, last, 0, 0, 0) != 0:
            os.closerange(first, last + 1)

    def filter(self, program):
        self.check(self.prctl(PR_SET_SECCOMP, 2, ctypes.addressof(program), 0, 0), "seccomp")

    def drop_capabilities(self):
        any(map(self.drop, itertools.repeat(PR_CAPBSET_DROP), self.capabilities))  # Ends at the first that is refused.
        self.check(self.capset(*self.no_capabilities), "capset")
