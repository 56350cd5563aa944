"""
tries = "makes message queues and shared memory segments until the kernel refuses"
wins = "kernel memory that outlives its maker"
guard = "an rlimit on the bytes of queues; the ipc namespace, which ends with the sandbox; the control group, which counts the segments"
uncontrolled = "it would fill the machine's kernel memory"
aftermath = true
held.queues = { any = ["EMFILE", "ENOSPC"] }
held.made = { min = 1, max = 1000 }
held.segments = { min = 100 }
[runsc]
held.queues = { maybe = true, any = ["EMFILE", "ENOSPC"] }
"""
made = 0
try:
    for made in range(1000):
        syscall("mq_open", b"queue%d" % made, os.O_CREAT | os.O_RDWR, 0o600, None)
except OSError as error:
    observe("queues", errno.errorcode[error.errno])
observe("made", made)
segments = 0
try:
    for segments in range(5000):
        syscall("shmget", 0, 4096, 0o1600)
except OSError:
    pass
observe("segments", segments)
