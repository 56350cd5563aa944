"""
tries = "says that it is ready and started a second time, and speaks words of the runner's own"
wins = "a runner that takes the job for a new one"
guard = "the runner knows what state a job is in; what does not belong there ends it"
uncontrolled = "outside of a sandbox there is no channel"
aftermath = true
held.before = true
outcome = { status = "failed", error = "code_raised", message = 'unexpected "ready"' }
"""
observe("before", True)
tell()
channel().sendall(frame({"op": "ready"}))
time.sleep(5)
