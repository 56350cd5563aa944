"""
tries = "turns address randomisation off and makes readable memory executable, for itself and what it executes"
wins = "an easier target for whatever else is tried"
guard = "seccomp: personality only to ask, or back to the default"
control = {}
held.no_randomising = "EPERM"
held.read_implies_exec = "EPERM"
held.now = 0
open.no_randomising = "worked"
open.read_implies_exec = "worked"
[runsc]
skip = "gVisor knows one personality, and no question for it"
"""
call("personality", 0x0040000, told="no_randomising")
call("personality", 0x0400000, told="read_implies_exec")
observe("now", syscall("personality", 0xFFFFFFFF))
