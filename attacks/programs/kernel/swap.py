"""
tries = "turns swapping on a file on and off"
wins = "other processes' pages in a file of its own"
guard = "seccomp: neither call is in the table; no capability besides"
control = {}
held."*" = "EPERM"
open."*" = "ENOENT"
"""
call("swapon", b"/no_such_file", 0)
call("swapoff", b"/no_such_file")
