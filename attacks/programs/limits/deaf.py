"""
tries = "ignores and blocks every signal, and waits for ever"
wins = "a container, for ever"
guard = "after the wall clock's interrupt and a grace the sandbox's pid 1 is killed, and that nobody can ignore"
uncontrolled = "a kill ends any process"
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
