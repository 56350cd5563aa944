"""
tries = "makes the kernel write everything to disk, with `sync` and with `syncfs` on the machine's file system"
wins = "delays for everybody who writes"
guard = "the seccomp filter refuses both calls (programs do not notice: libc's `sync` reports no errors)"
control = {}
held."*" = "EPERM"
open.all = "worked"
open.one = "worked"
"""
shown = os.open("/usr/bin/env", os.O_RDONLY)
call("sync", told="all")
call("syncfs", shown, told="one")
