"""
tries = "opens a software event on itself with `perf_event_open`"
wins = "the timing of others; kernel code with a history of vulnerabilities"
guard = "the seccomp filter refuses `perf_event_open`"
control = {}
held.software = "EPERM"
open.software = "worked"
"""
event = struct.pack("IIQQQQQ", 1, 128, 1, 0, 0, 0, 1 << 5 | 1 << 6) + bytes(80)
call("perf_event_open", event, 0, -1, -1, 0, told="software")
