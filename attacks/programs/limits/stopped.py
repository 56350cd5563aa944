"""
tries = "stops itself (`SIGSTOP`) and everything that it has started"
wins = "a container, forever, because a stopped process sees no interrupt"
guard = "the kill that follows the interrupt after a grace period, which ends stopped processes, too"
uncontrolled = "a kill ends any process, with or without a sandbox"
aftermath = true
limits = { wall_ms = 300 }
held.started = true
outcome = { status = "timed_out", error = "wall_timeout" }
"""
observe("started", True)
tell()
if os.fork() == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)
