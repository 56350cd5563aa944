"""
tries = "leaves a lock, status flags and a signal owner on its standard input, which the runner gave it"
wins = "a mark that the next job finds, although nothing should pass between them; a next job that hangs or gets signals"
guard = "every run gets a `/dev/null` that was opened for it alone"
control = { mode = "same" }
held.left = "worked"
held.flags = 0
held.owner = 0
held.lock = "worked"
open.flags = { none = [0] }
open.owner = { none = [0] }
open.lock = "EAGAIN"
"""
import fcntl

if CONTROL:
    os.dup2(os.open("/dev/null", os.O_RDWR), 0)
fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND)
fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
attempt("left", fcntl.flock, 0, fcntl.LOCK_EX | fcntl.LOCK_NB)
# --- the next job
import fcntl

observe("flags", fcntl.fcntl(0, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_APPEND))
observe("owner", fcntl.fcntl(0, fcntl.F_GETOWN))
null = os.open("/dev/null", os.O_RDWR)
end = time.monotonic() + 1
# The first job's process may still be dying.
while answer(fcntl.flock, null, fcntl.LOCK_EX | fcntl.LOCK_NB) != "worked" and time.monotonic() < end:
    time.sleep(0.01)
attempt("lock", fcntl.flock, null, fcntl.LOCK_EX | fcntl.LOCK_NB)
