"""
tries = "catches the interrupt at the wall-clock limit, again and again"
wins = "a container, forever"
guard = "the kill that follows the interrupt after a grace period"
uncontrolled = "a kill ends any process, with or without a sandbox"
aftermath = true
limits = { wall_ms = 3000 }
held.started = true
outcome = { status = "timed_out", error = "wall_timeout" }
"""
observe("started", True)
tell()
while True:
    try:
        time.sleep(60)
    except BaseException:
        pass
