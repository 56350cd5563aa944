"""
tries = "forks until it can't, and each child does the same"
wins = "a machine with no process left for others"
guard = "rlimit on processes, per user namespace, and so per sandbox; the container's control group behind it"
slow = true
uncontrolled = "it would take the machine down"
aftermath = true
limits = { wall_ms = 1500 }
held.started = true
held.refused = "EAGAIN"
held.children = { min = 10, max = 64 }
outcome = { status = "timed_out", error = "wall_timeout" }
# What takes gVisor's kernel beyond the container's bounds ends it, and the job with it.
[runsc]
instead = { started = true }
outcome = { status = "lost", error = "sandbox_lost" }
"""
observe("started", True)
tell()
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
