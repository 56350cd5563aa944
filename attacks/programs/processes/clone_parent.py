"""
tries = "forks a child that is the runner's child and not its own (CLONE_PARENT), as zygotes do"
wins = "to confuse who is reaped by whom, and to outlive the job"
guard = "seccomp: CLONE_PARENT is sealed once a child stands in its sandbox"
control = { within = ["sh", "-c", '"$@"; exit $?', "sh"] }
held.clone_parent = "EPERM"
open.clone_parent = "worked"
"""


def clone():
    if syscall("clone", 0x8000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


attempt("clone_parent", clone)
