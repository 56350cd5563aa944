"""
tries = "leaves System V shared memory, semaphores and a message queue under a known key"
wins = "a channel to the next job"
guard = "each sandbox has its own ipc namespace"
control = { within = ["unshare", "--ipc"] }
held.made = ["worked", "worked", "worked"]
held.found = ["ENOENT", "ENOENT", "ENOENT"]
open.found = ["worked", "worked", "worked"]
"""
CREATE, KEY = 0o1600, 0x7E57
made = [
    answer(syscall, "shmget", KEY, 4096, CREATE),
    answer(syscall, "semget", KEY, 1, CREATE),
    answer(syscall, "msgget", KEY, CREATE),
]
observe("made", made)
# --- the next job
KEY = 0x7E57
found = [
    answer(syscall, "shmget", KEY, 4096, 0),
    answer(syscall, "semget", KEY, 1, 0),
    answer(syscall, "msgget", KEY, 0),
]
observe("found", found)
