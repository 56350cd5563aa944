"""
tries = "makes as many System V message queues and shared memory segments as it can"
wins = "half a gigabyte of messages, which no limit on a process counts"
guard = "the sandbox's ipc namespace allows 64 queues and 256 segments (since Linux 6.9)"
control = { within = ["unshare", "--ipc"] }
held.queues = { min = 1, max = 64 }
held.segments = { min = 1, max = 256 }
open.queues = { min = 65 }
open.segments = { min = 257 }
"""
for name, make in [("queues", lambda: syscall("msgget", 0, 0o600)), ("segments", lambda: syscall("shmget", 0, 4096, 0o600))]:
    made = 0
    while made < 300 and answer(make) == "worked":
        made += 1
    observe(name, made)
