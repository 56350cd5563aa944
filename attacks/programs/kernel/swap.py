"""
tries = "turns swapping to a file on and off"
wins = "other processes' pages in a file of its own"
guard = "the seccomp filter refuses both calls; the job has no capability either"
control = {}
held."*" = "EPERM"
open."*" = "ENOENT"
"""
call("swapon", b"/no_such_file", 0)
call("swapoff", b"/no_such_file")
