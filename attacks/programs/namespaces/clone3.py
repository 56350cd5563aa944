"""
tries = "forks a child into a new user namespace with `clone3`, whose flags are in memory, where a filter can't see them"
wins = "the power over a namespace of its own"
guard = "the seccomp filter makes `clone3` look unknown (`ENOSYS`), so that libc falls back to `clone`"
control = {}
held.clone3 = "ENOSYS"
open.clone3 = "worked"
"""


def clone3():
    arguments = struct.pack("11Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    pid = syscall("clone3", arguments, len(arguments))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


attempt("clone3", clone3)
