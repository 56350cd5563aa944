"""
tries = "gives one thread its own table of descriptors (`CLOSE_RANGE_UNSHARE`)"
wins = "memory files that don't show among the descriptors of its process"
guard = "the seccomp filter makes the threads of a process share their descriptors (it also refuses `clone` of a thread without `CLONE_FILES`)"
control = {}
held.unshared = "EPERM"
held.closed = "worked"
open.unshared = "worked"
"""
call("close_range", 900, 1000, 2, told="unshared")
call("close_range", 900, 1000, 0, told="closed")
