"""
tries = "leaves children that fork on, and ends at once: nobody is left to be waited for"
wins = "processes that live on, faster than they can be killed"
guard = "the kernel ends a pid namespace with its first process: no fork can escape it"
uncontrolled = "it would take the machine down"
aftermath = true
held.started = true
# What takes gVisor's kernel beyond the container's bounds ends it, and the job with it.
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
