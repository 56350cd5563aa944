"""
tries = "takes a table of descriptors of its own for one thread (CLOSE_RANGE_UNSHARE)"
wins = "memory files that its process does not show"
guard = "seccomp: a process's threads share their descriptors (`clone` without CLONE_FILES is refused for them, too)"
control = {}
held.unshared = "EPERM"
held.closed = "worked"
open.unshared = "worked"
"""
call("close_range", 900, 1000, 2, told="unshared")
call("close_range", 900, 1000, 0, told="closed")
