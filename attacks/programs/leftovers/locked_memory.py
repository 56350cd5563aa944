"""
tries = "ends while it holds locked memory and timers"
wins = "less of them for the next job, because the kernel counts them for the user"
guard = "locked memory and timers belong to a process, and the kernel frees them with the sandbox, before the next job needs them"
uncontrolled = "the kernel frees locked memory and timers when a process ends, with or without a sandbox"
held.locked = "worked"
held.timers = { min = 100 }
held.again = "worked"
"""
import mmap

memory = mmap.mmap(-1, 4 << 20)
attempt("locked", syscall, "mlock", ctypes.addressof(ctypes.c_char.from_buffer(memory)), 4 << 20)
TIMER_CREATE = (222, 107)[MACHINE]
event, timer = struct.pack("QiiI44x", 0, 0, 1, 0), ctypes.c_int()
for number in range(100):
    syscall(TIMER_CREATE, 1, event, ctypes.byref(timer))
observe("timers", 100)
# --- the next job
import mmap

memory = mmap.mmap(-1, 4 << 20)
attempt("again", syscall, "mlock", ctypes.addressof(ctypes.c_char.from_buffer(memory)), 4 << 20)
