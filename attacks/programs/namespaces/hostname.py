"""
tries = "renames the machine and its domain"
wins = "the identity of another machine"
guard = "the seccomp filter refuses both calls; the uts namespace is the sandbox's own"
control = { within = ["unshare", "--uts"] }
held."*" = "EPERM"
open."*" = "worked"
"""
call("sethostname", b"evil", 4)
call("setdomainname", b"evil", 4)
