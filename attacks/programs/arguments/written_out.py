"""
tries = "has the kernel write everything to disk: sync, and syncfs on the machine's file system"
wins = "everybody who writes waits"
guard = "seccomp: neither is in the table (libc's `sync` can't fail, so that programs do not notice)"
control = {}
held."*" = "EPERM"
open.all = "worked"
open.one = "worked"
"""
shown = os.open("/usr/bin/env", os.O_RDONLY)
call("sync", told="all")
call("syncfs", shown, told="one")
