"""
tries = "hands its channel to a child that speaks on it at the same time and after the parent's end"
wins = "a voice after the job's end; frames of two that mix"
guard = "the child dies with the sandbox; mixed frames end the job"
uncontrolled = "outside of a sandbox there is no channel"
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
