"""
tries = "hands its channel to a child, which sends on it after the parent's end"
wins = "messages after the job's end; mixed frames of two senders"
guard = "the child dies with the sandbox; mixed frames end the job"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.before = true
outcome = { calls = 0 }
[[tools]]
name = "echo"
"""
observe("before", True)
link = channel()
if os.fork() == 0:
    time.sleep(0.3)
    while True:
        link.sendall(frame({"op": "call", "call": 1, "name": "echo", "arguments": {}}))
