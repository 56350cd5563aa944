"""
tries = "turns on process accounting, to a file of its own"
wins = "a list of everybody's processes; a write by the kernel"
guard = "the seccomp filter refuses `acct`; the job has no capability either"
uncontrolled = "it would turn off the machine's accounting"
held.acct = "EPERM"
"""
call("acct", b"/workspace/acct")
