"""
tries = "watches the file system by fanotify"
wins = "to see and to hold up other processes' opens"
guard = "seccomp: neither call is in the table"
control = {}
held."*" = "EPERM"
open.fanotify_init = "worked"
open.fanotify_mark = "EBADF"
"""
call("fanotify_init", 0, 0)
call("fanotify_mark", -1, 1, 1, -100, b"/")
