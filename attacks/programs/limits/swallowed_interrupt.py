"""
tries = "catches the wall clock's interrupt, again and again"
wins = "a container, for ever"
guard = "after a grace comes the kill"
uncontrolled = "a kill ends any process"
aftermath = true
limits = { wall_ms = 300 }
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
