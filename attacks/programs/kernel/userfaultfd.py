"""
tries = "asks for a userfaultfd"
wins = "to hold the kernel in the middle of a copy, which makes races in it easy"
guard = "seccomp: userfaultfd is not in the table"
control = {}
held.userfaultfd = "EPERM"
open.userfaultfd = "worked"
"""
call("userfaultfd", 1)
