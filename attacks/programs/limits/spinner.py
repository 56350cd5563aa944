"""
tries = "computes without end"
wins = "a processor, forever"
guard = "a limit on CPU time, which the runner watches; behind it, an rlimit"
uncontrolled = "it would occupy a processor forever"
aftermath = true
limits = { cpu_ms = 500, wall_ms = 20000 }
held.started = true
outcome = { status = "timed_out", error = "cpu_timeout" }
"""
observe("started", True)
tell()
while True:
    pass
