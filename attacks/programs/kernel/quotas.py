"""
tries = "asks for and changes disk quotas"
wins = "the machine's quotas"
guard = "seccomp: neither call is in the table"
control = {}
held."*" = "EPERM"
open.quotactl = { none = ["EPERM"] }
"""
call("quotactl", 0x80000701, b"/dev/no_such_disk", 0, None)
call("quotactl_fd", -1, 0x80000701, 0, None)
