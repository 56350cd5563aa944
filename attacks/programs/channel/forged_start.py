"""
tries = "sends `ready` a second time, a message that belongs before the start of a job"
wins = "a runner that takes the job for a new one"
guard = "the runner knows each job's state; a message that does not belong to that state ends the job"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.before = true
outcome = { status = "failed", error = "code_raised", message = 'unexpected "ready"' }
"""
observe("before", True)
tell()
channel().sendall(frame({"op": "ready"}))
time.sleep(5)
