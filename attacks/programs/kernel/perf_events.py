"""
tries = "counts its own instructions and a software event by perf_event_open"
wins = "timing of others, and kernel code with a bad history"
guard = "seccomp: perf_event_open is not in the table"
control = {}
held.software = "EPERM"
open.software = "worked"
"""
event = struct.pack("IIQQQQQ", 1, 128, 1, 0, 0, 0, 1 << 5 | 1 << 6) + bytes(80)
call("perf_event_open", event, 0, -1, -1, 0, told="software")
