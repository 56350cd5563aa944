"""
tries = "computes in children that live for a few hundredths of a second each and that nobody waits for, so that their CPU time is added to nobody's"
wins = "processors until the wall-clock limit, past the limit on CPU time"
guard = "the container's control group counts all CPU time, and what nobody else in the container has used is the job's"
slow = true
uncontrolled = "it would occupy the processors forever"
aftermath = true
limits = { cpu_ms = 1000, wall_ms = 20000 }
held.started = true
outcome = { status = "timed_out", error = "cpu_timeout" }
[rootless]
skip = "without a control group, nothing counts the CPU time of children of a program that ignores SIGCHLD (docs/security.md)"
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
