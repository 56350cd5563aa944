"""
tries = "lowers its limit on core dumps to 0 with every call that can, then starts a program and crashes it, on a machine whose crash handler is a program"
wins = "the crash handler, which the kernel starts at 0 as well"
guard = "the seccomp filter refuses every call that would set this limit"
machine = "piped_cores"
control = {}
held.python = "EPERM"
held.set = "EPERM"
held.set_for = "EPERM"
held.high_half = "EPERM"
held.far_pointer = "EPERM"
held.read = [1, 1]
held.dumped = false
open.set = "worked"
open.dumped = true
"""
import mmap
import resource
import subprocess

NONE = struct.pack("2Q", 0, 0)


def lowered():
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except ValueError:
        raise OSError(errno.EPERM, "refused") from None


attempt("python", lowered)
call("setrlimit", 4, NONE, told="set")
call("prlimit64", 0, 4, NONE, None, told="set_for")
call("prlimit64", 0, 1 << 32 | 4, NONE, None, told="high_half")
# A pointer whose low half is null. A filter that compares only the low half takes this call for a query.
libc.mmap.restype = ctypes.c_void_p
far = libc.mmap(ctypes.c_void_p(0x7E << 32), ctypes.c_size_t(4096), 3, 0x32, -1, ctypes.c_long(0))
ctypes.memmove(far, NONE, 16)
call("prlimit64", 0, 4, far, None, told="far_pointer")
observe("read", list(resource.getrlimit(resource.RLIMIT_CORE)))
ended = os.posix_spawn(sys.executable, [sys.executable, "-I", "-c", "import os; os.abort()"], os.environ)
observe("dumped", os.WCOREDUMP(os.waitpid(ended, 0)[1]))
