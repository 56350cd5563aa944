"""
tries = "uses up what the kernel counts per user (bytes of message queues, locked memory, pipes) while a job in another container needs some of it"
wins = "others that can't work"
guard = "each container has a user of its own (if the worker is root); locked memory and queues are counted per user namespace"
uncontrolled = "root's share is not counted"
held.queues = { any = ["EMFILE", "ENOSPC"] }
held.locked = { any = ["ENOMEM", "EAGAIN", "EPERM"] }
held.pipes = { min = 100 }
held.neighbours_queue = "worked"
held.neighbours_lock = "worked"
held.neighbours_pipe = 65536
[rootless]
skip = "an ordinary user's containers all run as that one user, and share what is counted per user (docs/security.md)"
[runsc]
skip = "each container has a kernel of its own, which counts for nobody else"
"""
import mmap

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
# Hold all this while the neighbour asks for what it needs.
time.sleep(0.7)
# --- the neighbour
import fcntl
import mmap
import threading

found = {}


def need():
    time.sleep(0.4)
    found["queue"] = answer(syscall, "mq_open", b"one", os.O_CREAT | os.O_RDWR, 0o600, None)
    memory = mmap.mmap(-1, 1 << 20)
    found["lock"] = answer(syscall, "mlock", ctypes.addressof(ctypes.c_char.from_buffer(memory)), 1 << 20)
    found["pipe"] = fcntl.fcntl(os.pipe()[0], 1032)


thread = threading.Thread(target=need)
thread.start()
at_gate()
thread.join()
observe("neighbours_queue", found["queue"])
observe("neighbours_lock", found["lock"])
observe("neighbours_pipe", found["pipe"])
