"""
tries = "sets options of sockets that change how the kernel works on packets: busy polling, no copies, sending times, pacing, reserved memory"
wins = "processor time of the kernel's that nobody counts as the job's; pages that the kernel still reads when they are freed"
guard = "seccomp: setsockopt only with the options that programs need"
control = {}
held."*" = "EPERM"
open.no_copies = "worked"
open.pace = "worked"
"""
made = socket.socket()
for name, option, value in [
    ("busy_poll", 46, 50),
    ("prefer_busy_poll", 69, 1),
    ("no_copies", 60, 1),
    ("pace", 47, 1000),
    ("times", 61, bytes(8)),
    ("reserve", 73, 1 << 16),
    ("timestamps", 37, 0x7F),
    ("device", 25, b"lo"),
    ("security", 34, 1),
    ("unmap", 75, 1),
]:
    attempt(name, made.setsockopt, socket.SOL_SOCKET, option, value)
