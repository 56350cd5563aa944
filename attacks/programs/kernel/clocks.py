"""
tries = "sets the machine's time by four calls"
wins = "everybody's time; certificates that are valid again"
guard = "seccomp: none of them is in the table (the calls are with arguments that would change nothing)"
control = {}
held."*" = "EPERM"
open.clock_settime = "EINVAL"
open.settimeofday = "EFAULT"
open.adjtimex = "EFAULT"
open.clock_adjtime = { none = ["EPERM", "worked"] }
"""
call("clock_settime", 1, struct.pack("2q", 0, 0))
call("settimeofday", 1, None)
call("adjtimex", 1)
call("clock_adjtime", 99, ctypes.create_string_buffer(256))
