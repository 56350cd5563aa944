"""
tries = "advises on another process's memory by process_madvise, which the way into a sandbox needs, and compares descriptors by kcmp"
wins = "to page a neighbour out; kernel pointers, in an order"
guard = "seccomp: process_madvise is sealed once a child stands in its sandbox; kcmp and process_mrelease are not in the table"
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
