"""
tries = "holds locked memory and timers when it ends"
wins = "less for the next job: what the kernel counts for the user"
guard = "all of it is a process's, and goes with the sandbox before the next job's is used up"
uncontrolled = "what is held is given back by the kernel at a process's end anywhere"
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
