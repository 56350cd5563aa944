"""
tries = "asks for disk quotas with `quotactl` and `quotactl_fd`"
wins = "the machine's quotas"
guard = "the seccomp filter refuses both calls"
control = {}
held."*" = "EPERM"
open.quotactl = { none = ["EPERM"] }
"""
call("quotactl", 0x80000701, b"/dev/no_such_disk", 0, None)
call("quotactl_fd", -1, 0x80000701, 0, None)
