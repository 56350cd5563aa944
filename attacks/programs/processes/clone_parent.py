"""
tries = "forks a child that is the runner's instead of its own (`CLONE_PARENT`), as zygotes do"
wins = "confusion about which process reaps which; a process that outlives the job"
guard = "the seccomp filter refuses `CLONE_PARENT` once the job is in its sandbox"
control = { within = ["sh", "-c", '"$@"; exit $?', "sh"] }
held.clone_parent = "EPERM"
open.clone_parent = "worked"
"""


def clone():
    if syscall("clone", 0x8000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


attempt("clone_parent", clone)
