"""
tries = "holds locked memory, mapped files, timers, inotify watches and queued signals when it ends"
wins = "less for the next job: what the kernel counts for the user"
guard = "all of it is a process's, and goes with the sandbox before the next job's is used up"
uncontrolled = "what is held is given back by the kernel at a process's end anywhere"
held.locked = "worked"
held.instances = { min = 1 }
held.again = "worked"
held.instances_again = { alike = true }
"""
import mmap


def instances():
    made = []
    try:
        while len(made) < 900:
            made.append(syscall("inotify_init1", 0))
    except OSError:
        pass
    return len(made)


memory = mmap.mmap(-1, 4 << 20)
attempt("locked", syscall, "mlock", ctypes.addressof(ctypes.c_char.from_buffer(memory)), 4 << 20)
count = instances()
observe("instances", count)
observe("instances_again", count)
# --- the next job
import mmap

memory = mmap.mmap(-1, 4 << 20)
attempt("again", syscall, "mlock", ctypes.addressof(ctypes.c_char.from_buffer(memory)), 4 << 20)
count = 0
handles = []
try:
    while count < 900:
        handles.append(syscall("inotify_init1", 0))
        count += 1
except OSError:
    pass
observe("instances_again", count)
