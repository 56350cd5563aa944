"""
tries = "asks a file of its own by fcntl for every command from 0 to 2047"
wins = "a command that nobody thought of"
guard = "seccomp: a list of commands; no other one reaches the kernel, a later kernel's neither"
control = {}
held.passed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 36, 37, 38, 1030, 1031, 1032, 1033, 1034]
open.passed = { none = [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 36, 37, 38, 1030, 1031, 1032, 1033, 1034]] }
"""
signal.signal(signal.SIGIO, signal.SIG_IGN)
passed = []
for command in range(2048):
    own = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    if answer(syscall, "fcntl", own, command, 0) != "EPERM":
        passed.append(command)
    os.closerange(own, own + 8)
observe("passed", passed)
