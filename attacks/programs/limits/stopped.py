"""
tries = "stops itself (SIGSTOP) and all that it has started"
wins = "a container, for ever: what is stopped sees no interrupt"
guard = "after a grace comes the kill, which ends the stopped, too"
uncontrolled = "a kill ends any process"
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
