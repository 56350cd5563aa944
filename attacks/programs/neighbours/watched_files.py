"""
tries = "watches the system's folders (inotify, dnotify) while a job in another container runs programs from them"
wins = "what everybody on the machine runs and imports, by name and as it happens, because the files are the machine's own"
guard = "the seccomp filter refuses watches, both inotify and `fcntl`'s `F_NOTIFY` (leases: `arguments/leases`)"
control = {}
held.instance = "EPERM"
held.watch = "EPERM"
held.notify = "EPERM"
held.seen = []
held.ran = { min = 1 }
open.watch = "worked"
open.notify = "worked"
open.seen = ["env"]
"""
import fcntl
import select

try:
    handle = syscall("inotify_init1", os.O_NONBLOCK)
except OSError:
    handle = os.open("/dev/null", os.O_RDONLY)
call("inotify_init1", 0, told="instance")
folder = os.open("/usr/bin", os.O_RDONLY)
signal.signal(signal.SIGIO, signal.SIG_IGN)
call("inotify_add_watch", handle, b"/usr/bin", 0x20, told="watch")
attempt("notify", fcntl.fcntl, folder, fcntl.F_NOTIFY, fcntl.DN_ACCESS)
seen, end = set(), time.monotonic() + 1
while time.monotonic() < end:
    if select.select([handle], [], [], 0.1)[0]:
        seen.update(name for name in (b"env",) if name in os.read(handle, 65536))
observe("seen", sorted(name.decode() for name in seen))
# --- the neighbour
import subprocess
import threading

over, ran = threading.Event(), []


def work():
    while not over.wait(0.1):
        ran.append(subprocess.run(["/usr/bin/env"], stdout=subprocess.DEVNULL).returncode)


thread = threading.Thread(target=work)
thread.start()
at_gate()
over.set()
thread.join()
observe("ran", len(ran))
