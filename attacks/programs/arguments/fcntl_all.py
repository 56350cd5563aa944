"""
tries = "sends every `fcntl` command from 0 to 2047 to a file of its own"
wins = "a command that the filter overlooks"
guard = "the seccomp filter allows only a list of commands; no other command reaches the kernel, not even a later kernel's"
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
