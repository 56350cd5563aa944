"""
tries = "renames the machine and its domain"
wins = "to be taken for another machine"
guard = "seccomp: neither is in the table; and the uts namespace is the sandbox's own"
control = { within = ["unshare", "--uts"] }
held."*" = "EPERM"
open."*" = "worked"
"""
call("sethostname", b"evil", 4)
call("setdomainname", b"evil", 4)
