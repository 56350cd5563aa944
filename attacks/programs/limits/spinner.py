"""
tries = "computes without end"
wins = "a processor, for ever"
guard = "a limit on CPU time, watched by the runner; an rlimit behind it"
uncontrolled = "it would take a processor for ever"
aftermath = true
limits = { cpu_ms = 500, wall_ms = 20000 }
held.started = true
outcome = { status = "timed_out", error = "cpu_timeout" }
"""
observe("started", True)
tell()
while True:
    pass
