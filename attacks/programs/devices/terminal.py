"""
tries = "types into a terminal (`TIOCSTI`), pastes with `TIOCLINUX`, takes over the console, and changes the line discipline"
wins = "commands in the shell of the user who started the worker (CVE-2017-5226)"
guard = "the seccomp filter allows `ioctl` only with the requests that programs need; the job's process session has no terminal"
control = {}
held."*" = "EPERM"
held.terminal = "ENOENT"
open.sti = "ENOTTY"
open.linux = "ENOTTY"
[runsc]
held.terminal = "EIO"
"""
for name, request in [("sti", 0x5412), ("linux", 0x541C), ("console", 0x541D), ("discipline", 0x5423)]:
    call("ioctl", 0, request, b"\x03", told=name)
attempt("terminal", opened, "/dev/tty", os.O_RDWR)
