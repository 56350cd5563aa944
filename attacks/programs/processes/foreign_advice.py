"""
tries = "advises the kernel about a process's memory with `process_madvise`, a call that entering a sandbox needs, and compares descriptors with `kcmp`"
wins = "a neighbour's memory paged out; the order of kernel pointers"
guard = "the seccomp filter refuses `process_madvise` once the job is in its sandbox, and `kcmp` and `process_mrelease` always"
control = {}
held."*" = "EPERM"
open.process_madvise = "worked"
open.kcmp = "worked"
open.process_mrelease = "EINVAL"
[runsc]
skip = "gVisor has no pidfds"
"""
import mmap

memory = mmap.mmap(-1, 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
call("process_madvise", os.pidfd_open(os.getpid()), struct.pack("2Q", address, 4096), 1, 20, 0)
call("kcmp", os.getpid(), os.getpid(), 0, 0, 1)
call("process_mrelease", os.pidfd_open(os.getpid()), 0)
