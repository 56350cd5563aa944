"""
tries = "lets children compute without end, in sessions of their own, and sleeps"
wins = "processors, for ever, on nobody's account"
guard = "the limit on CPU time is on the sandbox's sum"
uncontrolled = "it would take the processors for ever"
aftermath = true
limits = { cpu_ms = 500, wall_ms = 20000 }
held.children = 4
outcome = { status = "timed_out", error = "cpu_timeout" }
"""
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        while True:
            pass
observe("children", 4)
tell()
time.sleep(60)
