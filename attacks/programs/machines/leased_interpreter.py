"""
tries = "leases the interpreter's files and locks them for writing while a job in another container opens them (the files belong to its own user, if that user installed the interpreter)"
wins = "a neighbour that waits for seconds at every import, and knowledge of the files that it opens"
guard = "the seccomp filter refuses leases; a write lock requires a file that is open for writing"
control = {}
held.write_lease = "EPERM"
held.read_lease = "EPERM"
held.write_lock = { any = ["EBADF", "EACCES"] }
held.broken = 0
held.waited = { max = 5 }
open.read_lease = "worked"
open.write_lock = "EBADF"
"""
import fcntl

broken = []
signal.signal(signal.SIGIO, lambda *_: broken.append(1))
shown = os.open(os.__file__, os.O_RDONLY)
attempt("write_lease", fcntl.fcntl, shown, fcntl.F_SETLEASE, fcntl.F_WRLCK)
attempt("read_lease", fcntl.fcntl, shown, fcntl.F_SETLEASE, fcntl.F_RDLCK)
attempt("write_lock", fcntl.lockf, shown, fcntl.LOCK_EX | fcntl.LOCK_NB)
if CONTROL:
    fcntl.fcntl(shown, fcntl.F_SETLEASE, fcntl.F_UNLCK)
time.sleep(0.3)
observe("broken", len(broken))
# --- the neighbour
import threading

over, waits = threading.Event(), []


def work():
    while not over.wait(0.02):
        begun = time.monotonic()
        with open(os.__file__) as file:
            file.read(1)
        waits.append(time.monotonic() - begun)


thread = threading.Thread(target=work)
thread.start()
at_gate()
over.set()
thread.join()
observe("waited", max(waits, default=0))
