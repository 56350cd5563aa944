"""
tries = "makes a set of 32,000 semaphores, and as many smaller sets as it can"
wins = "hundreds of megabytes of kernel memory, which no limit on a process counts"
guard = "the seccomp filter allows only small sets; the sandbox's ipc namespace allows 4,096 semaphores in all (since Linux 6.9)"
control = { within = ["unshare", "--ipc"] }
held.large = "EPERM"
held.made = { min = 1, max = 4096 }
open.large = "worked"
open.made = { min = 4097 }
"""
call("semget", 0, 32000, 0o600, told="large")
made = 0
for _ in range(20):
    if answer(syscall, "semget", 0, 250, 0o600) != "worked":
        break
    made += 250
observe("made", made)
