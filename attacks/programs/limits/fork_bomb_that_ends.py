"""
tries = "leaves children that go on forking, and ends at once, so that nobody is left to wait for"
wins = "processes that live on, and fork faster than they can be killed"
guard = "the kernel ends a pid namespace with its first process, and no fork can escape that"
uncontrolled = "it would take the machine down"
aftermath = true
held.started = true
# A job that takes gVisor's kernel beyond the container's bounds ends that kernel, and itself.
[runsc]
outcome = { status = "lost", error = "sandbox_lost" }
"""
observe("started", True)
tell()
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.1)
        while True:
            try:
                os.fork()
            except OSError:
                pass
