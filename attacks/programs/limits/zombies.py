"""
tries = "leaves children that have ended and that it never waits for, and orphans by the hundred"
wins = "a full process table"
guard = "ended processes count against the limit on processes; the kernel reaps orphans on behalf of pid 1"
slow = true
uncontrolled = "it would fill the machine's process table"
aftermath = true
held.refused = "EAGAIN"
held.zombies = { max = 64 }
held.orphans = 300
[runsc]
skip = "gVisor has no limit on processes except the container's, and its ended processes do not count on the machine"
"""
for orphan in range(300):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
observe("orphans", 300)
zombies = 0
try:
    while zombies < 5000:
        if os.fork() == 0:
            os._exit(0)
        zombies += 1
except OSError as error:
    observe("refused", errno.errorcode[error.errno])
observe("zombies", zombies)
