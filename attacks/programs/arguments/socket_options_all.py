"""
tries = "reads every socket option from 0 to 127"
wins = "an option that the filter overlooks"
guard = "the seccomp filter allows only a list of options for each level; no other option reaches the kernel"
control = {}
held.passed = [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 16, 17, 18, 19, 20, 21, 29, 30, 35, 38, 39, 42, 49]
open.passed = { none = [[2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 16, 17, 18, 19, 20, 21, 29, 30, 35, 38, 39, 42, 49]] }
"""
made = socket.socket()
observe("passed", [option for option in range(128) if answer(made.getsockopt, socket.SOL_SOCKET, option, 4) != "EPERM"])
