"""
tries = "locks 64 MiB of memory, so that the machine can't page it out"
wins = "memory that nobody else can have"
guard = "an rlimit on locked memory, counted per user namespace"
control = {}
held.large = "ENOMEM"
held.all = "ENOMEM"
open.large = "worked"
"""
import mmap

memory = mmap.mmap(-1, 64 << 20)
attempt("large", syscall, "mlock", ctypes.addressof(ctypes.c_char.from_buffer(memory)), 64 << 20)
attempt("all", lambda: None if CONTROL or libc.mlockall(3) == 0 else (_ for _ in ()).throw(OSError(ctypes.get_errno(), "")))
