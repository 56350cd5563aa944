"""
tries = "turns process accounting on, to a file of its own"
wins = "a list of everybody's processes; a write by the kernel"
guard = "seccomp: acct is not in the table; no capability besides"
uncontrolled = "it would turn the machine's accounting off"
held.acct = "EPERM"
"""
call("acct", b"/workspace/acct")
