"""
tries = "calls `madvise` with every advice value from 0 to 127, including the one that poisons pages and so takes them from the machine"
wins = "an advice value that the filter overlooks"
guard = "the seccomp filter allows only a list of advice values"
uncontrolled = "it would poison the machine's memory"
held.passed = [0, 1, 2, 3, 4, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19, 22, 23, 24, 102, 103]
"""
import mmap

room = mmap.mmap(-1, 1 << 16)
at = ctypes.addressof(ctypes.c_char.from_buffer(room))
observe("passed", [advice for advice in range(128) if answer(syscall, "madvise", at, 1 << 16, advice) != "EPERM"])
