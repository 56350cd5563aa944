"""
tries = "ignores and blocks every signal, and waits forever"
wins = "a container, forever"
guard = "after the interrupt at the wall-clock limit and a grace period, the runner kills the sandbox's pid 1, which nothing can ignore"
uncontrolled = "a kill ends any process, with or without a sandbox"
aftermath = true
limits = { wall_ms = 300 }
held.ignored = { min = 50 }
outcome = { status = "timed_out", error = "wall_timeout", message = "killed" }
"""
ignored = 0
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
        ignored += 1
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
observe("ignored", ignored)
tell()
while True:
    signal.sigwaitinfo([signal.SIGUSR1])
