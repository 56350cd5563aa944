"""
tries = "turns off address randomisation and makes readable memory executable, for itself and for programs that it executes"
wins = "an easier target for other attacks"
guard = "the seccomp filter allows `personality` only to ask for the current one or to set the default"
control = {}
held.no_randomising = "EPERM"
held.read_implies_exec = "EPERM"
held.now = 0
open.no_randomising = "worked"
open.read_implies_exec = "worked"
[runsc]
skip = "gVisor has only one personality, and no way to ask for it"
"""
call("personality", 0x0040000, told="no_randomising")
call("personality", 0x0400000, told="read_implies_exec")
observe("now", syscall("personality", 0xFFFFFFFF))
