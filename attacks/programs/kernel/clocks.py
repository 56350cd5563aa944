"""
tries = "sets the machine's time with four calls, with arguments that would change nothing"
wins = "everybody's time; expired certificates that are valid again"
guard = "the seccomp filter refuses all four calls"
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
