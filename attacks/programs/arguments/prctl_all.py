"""
tries = "calls `prctl` with every option from 0 to 255"
wins = "an option that the filter overlooks"
guard = "the seccomp filter allows only a list of options; it takes back those for entering a sandbox once the job is inside"
control = {}
held.passed = [1, 2, 3, 15, 16, 23, 29, 30, 36, 37, 38, 39, 41, 42]
open.passed = { none = [[1, 2, 3, 15, 16, 23, 29, 30, 36, 37, 38, 39, 41, 42]] }
"""
observe("passed", [option for option in range(256) if answer(syscall, "prctl", option, 0, 0, 0, 0) != "EPERM"])
