"""
tries = "forks until the kernel refuses, and makes each child do the same"
wins = "a machine that has no process left for others"
guard = "an rlimit on processes, counted per user namespace and so per sandbox; behind it, the container's control group"
slow = true
uncontrolled = "it would take the machine down"
aftermath = true
limits = { wall_ms = 1500 }
held.started = true
held.refused = "EAGAIN"
held.children = { min = 10, max = 64 }
outcome = { status = "timed_out", error = "wall_timeout" }
# A job that takes gVisor's kernel beyond the container's bounds ends that kernel, and itself.
[runsc]
instead = { started = true }
outcome = { status = "lost", error = "sandbox_lost" }
"""
observe("started", True)
tell()
# Those that an interrupt ends write to all their pages first, and 64 of them may be more than the memory limit allows.
signal.signal(signal.SIGINT, signal.SIG_IGN)
children = 0
try:
    while True:
        if os.fork() == 0:
            signal.pause()
        children += 1
except OSError as error:
    observe("refused", errno.errorcode[error.errno])
observe("children", children)
tell()
os.kill(0, 0)
for name in (signal.SIGINT, signal.SIGTERM):
    signal.signal(name, signal.SIG_IGN)
while True:
    try:
        os.fork()
    except OSError:
        pass
