"""
tries = "uses up what the kernel counts per user while a job in another container needs some: inotify instances, message queues' bytes, locked memory, pipes"
wins = "others that can't work"
guard = "each container is a user of its own; locked memory and queues are counted per user namespace"
control = {}
held.inotify = "EMFILE"
held.instances = { min = 64 }
held.queues = { any = ["EMFILE", "ENOSPC"] }
held.locked = { any = ["ENOMEM", "EAGAIN", "EPERM"] }
held.pipes = { min = 100 }
held.neighbours_inotify = "worked"
held.neighbours_queue = "worked"
held.neighbours_lock = "worked"
held.neighbours_pipe = 65536
# Root's own limits are the machine's: with one user, the second finds nothing left.
open.neighbours_inotify = "EMFILE"
[rootless]
skip = "an ordinary user's containers are all that one user, and share what is counted per user (docs/security.md)"
"""
import mmap

count, handles = 0, []
try:
    while True:
        handles.append(syscall("inotify_init1", 0))
        count += 1
except OSError as error:
    observe("inotify", errno.errorcode[error.errno])
observe("instances", count)
if CONTROL:
    # The neighbour looks when this is held, and the job's end would give it back.
    if os.fork() == 0:
        time.sleep(1.5)
        os._exit(0)
else:
    try:
        for number in range(1000):
            syscall("mq_open", b"hog%d" % number, os.O_CREAT | os.O_RDWR, 0o600, None)
    except OSError as error:
        observe("queues", errno.errorcode[error.errno])
    memory = mmap.mmap(-1, 16 << 20)
    attempt("locked", syscall, "mlock", ctypes.addressof(ctypes.c_char.from_buffer(memory)), 16 << 20)
    pipes = 0
    try:
        while pipes < 300:
            os.pipe()
            pipes += 1
    except OSError:
        pass
    observe("pipes", pipes)
    if os.fork() == 0:
        time.sleep(600)
# --- the neighbour
import fcntl
import mmap

at_gate()
attempt("neighbours_inotify", syscall, "inotify_init1", 0)
if not CONTROL:
    attempt("neighbours_queue", syscall, "mq_open", b"one", os.O_CREAT | os.O_RDWR, 0o600, None)
    memory = mmap.mmap(-1, 1 << 20)
    attempt("neighbours_lock", syscall, "mlock", ctypes.addressof(ctypes.c_char.from_buffer(memory)), 1 << 20)
    observe("neighbours_pipe", fcntl.fcntl(os.pipe()[0], 1032))
