"""
tries = "leaves a POSIX message queue and named shared memory"
wins = "a channel to the next job"
guard = "each sandbox has its own ipc namespace and its own `/dev/shm`"
control = { within = ["unshare", "--ipc"] }
held.made = "worked"
held.shm = "worked"
held.found = "ENOENT"
held.shm_found = "ENOENT"
open.found = "worked"
open.shm_found = "worked"
"""
attempt("made", syscall, "mq_open", b"thermae", os.O_CREAT | os.O_RDWR, 0o600, None)
attempt("shm", opened, "/dev/shm/thermae-attack", os.O_CREAT | os.O_RDWR)
# --- the next job
attempt("found", syscall, "mq_open", b"thermae", os.O_RDWR, 0, None)
attempt("shm_found", opened, "/dev/shm/thermae-attack", os.O_RDWR)
if CONTROL:
    os.unlink("/dev/shm/thermae-attack")
