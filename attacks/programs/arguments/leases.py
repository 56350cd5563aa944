"""
tries = "takes leases (`F_SETLEASE`) on a file of its own and on the interpreter's file"
wins = "a signal when somebody opens the file; that program, which may be one of the machine's own, then waits for seconds"
guard = "the seccomp filter allows `fcntl` only with the commands that programs need"
control = {}
held."*" = "EPERM"
open.own = "worked"
open.shown = "worked"
"""
import fcntl

signal.signal(signal.SIGIO, signal.SIG_IGN)
own = os.open(PLACE + "/leased", os.O_RDONLY | os.O_CREAT, 0o600)
attempt("own", fcntl.fcntl, own, fcntl.F_SETLEASE, fcntl.F_RDLCK)
shown = os.open(os.path.realpath(sys.executable), os.O_RDONLY)
attempt("shown", fcntl.fcntl, shown, fcntl.F_SETLEASE, fcntl.F_RDLCK)
attempt("asked", fcntl.fcntl, shown, fcntl.F_GETLEASE)
for held in (own, shown):
    if CONTROL:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK)
