"""
tries = "crashes in every way, on a machine that starts a program as root for each crash (a piped `core_pattern`)"
wins = "a program that runs as root outside both walls, with the job's memory as its input and with arguments of the job's choice"
guard = "an rlimit of 1 on core dumps: at 1, and only at 1, the kernel starts no handler"
machine = "piped_cores"
control = {}
held.limit = [1, 1]
held."*" = false
open.abort = true
open.segfault = true
"""
import resource

observe("limit", list(resource.getrlimit(resource.RLIMIT_CORE)))
if CONTROL:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for name, crash in {
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "quit": lambda: os.kill(os.getpid(), signal.SIGQUIT),
    "trap": lambda: os.kill(os.getpid(), signal.SIGTRAP),
    "illegal": lambda: os.kill(os.getpid(), signal.SIGILL),
    "bus": lambda: os.kill(os.getpid(), signal.SIGBUS),
    "bad_call": lambda: os.kill(os.getpid(), signal.SIGSYS),
}.items():
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        crash()
        os._exit(0)
    observe(name, os.WCOREDUMP(os.waitpid(pid, 0)[1]))
