"""
tries = "asks for a `userfaultfd`"
wins = "a way to stop the kernel in the middle of a copy, which makes races in it easy to win"
guard = "the seccomp filter refuses `userfaultfd`"
control = {}
held.userfaultfd = "EPERM"
open.userfaultfd = "worked"
"""
call("userfaultfd", 1)
