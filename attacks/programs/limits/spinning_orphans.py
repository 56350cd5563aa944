"""
tries = "computes in children that live for a few hundredths of a second each and are waited for by nobody, so that their time is added to nobody's"
wins = "processors until the wall clock's end, past the limit on CPU time"
guard = "the container's control group counts all: from when the limit could first be reached, as much again and a second ends the job"
slow = true
uncontrolled = "it would take the processors for ever"
aftermath = true
limits = { cpu_ms = 1000, wall_ms = 8000 }
held.started = true
outcome = { status = "timed_out", error = "cpu_timeout" }
[rootless]
skip = "without a control group nobody counts the time of a process that nobody waits for (docs/security.md)"
"""
observe("started", True)
tell()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    for _ in range(4):
        if os.fork() == 0:
            end = time.monotonic() + 0.04
            while time.monotonic() < end:
                pass
            os._exit(0)
    time.sleep(0.06)
