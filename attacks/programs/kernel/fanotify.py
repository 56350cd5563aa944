"""
tries = "watches the file system with `fanotify`"
wins = "a view of other processes' opens, and a way to delay them"
guard = "the seccomp filter refuses both calls"
control = {}
held."*" = "EPERM"
open.fanotify_init = "worked"
open.fanotify_mark = "EBADF"
"""
call("fanotify_init", 0, 0)
call("fanotify_mark", -1, 1, 1, -100, b"/")
