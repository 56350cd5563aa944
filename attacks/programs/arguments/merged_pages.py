"""
tries = "asks the kernel to merge its pages with equal ones, through `madvise` and through `prctl` (also for its children)"
wins = "whether another container has a page with the same content, from the time that a write takes"
guard = "the seccomp filter refuses the advice and the option"
control = {}
held."*" = "EPERM"
open.merge = { any = ["worked", "EINVAL"] }
"""
import mmap

room = mmap.mmap(-1, 1 << 20)
at = ctypes.addressof(ctypes.c_char.from_buffer(room))
call("madvise", at, 1 << 20, 12, told="merge")
call("madvise", at, 1 << 20, 13, told="part")
call("prctl", 67, 1, 0, 0, 0, told="for_all")
call("prctl", 68, 0, 0, 0, 0, told="asked")
