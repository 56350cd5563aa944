"""
tries = "starts children that compute without end in sessions of their own, and sleeps"
wins = "processors, forever, at nobody's expense"
guard = "the limit on CPU time applies to the sum over the sandbox"
uncontrolled = "it would occupy the processors forever"
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
