"""
tries = "opens shared memory, a message queue and a file that a job in another container has under known names"
wins = "another job's data"
guard = "each sandbox has its own ipc and mount namespaces"
control = { within = ["unshare", "--ipc"] }
held.system_v = "ENOENT"
held.queue = "ENOENT"
held.shm = "ENOENT"
held.file = "ENOENT"
held.made = true
open.system_v = "worked"
open.queue = "worked"
open.shm = "worked"
"""
attempt("system_v", syscall, "shmget", 0x7E58, 4096, 0)
attempt("queue", syscall, "mq_open", b"thermae-neighbour", os.O_RDWR, 0, None)
attempt("shm", opened, "/dev/shm/thermae-neighbour", os.O_RDWR)
if not CONTROL:
    attempt("file", opened, "/tmp/thermae-neighbour")
# --- the neighbour
syscall("shmget", 0x7E58, 4096, 0o1600)
syscall("mq_open", b"thermae-neighbour", os.O_CREAT | os.O_RDWR, 0o600, None)
opened("/dev/shm/thermae-neighbour", os.O_CREAT | os.O_RDWR)
if not CONTROL:
    opened("/tmp/thermae-neighbour", os.O_CREAT | os.O_RDWR)
at_gate()
if CONTROL:
    os.unlink("/dev/shm/thermae-neighbour")
observe("made", True)
