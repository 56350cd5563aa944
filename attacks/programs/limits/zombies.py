"""
tries = "makes children that end and are never waited for, and orphans by the hundred"
wins = "a full table of processes"
guard = "the dead count as processes; orphans are reaped by the kernel in pid 1's name"
slow = true
uncontrolled = "it would fill the machine's table"
aftermath = true
held.refused = "EAGAIN"
held.zombies = { max = 64 }
held.orphans = 300
[runsc]
skip = "gVisor has no limit on processes but the container's, and its dead are none of the machine's"
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
