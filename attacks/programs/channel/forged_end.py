"""
tries = "says that it is done, with a value of its choice, and goes on: calls a tool and prints"
wins = "work that is counted for nobody, after its result is out"
guard = "the runner kills the sandbox as soon as its program says that it is done; a job may choose its value anyway"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.before = true
outcome = { calls = 0, stdout = "" }
[[tools]]
name = "echo"
# Without an inner wall, the runner does not kill a job that says that it is done.
# The harness then says so a second time at the job's end, which breaks the protocol.
[runsc]
outcome = { status = "failed", error = "code_raised" }
"""
link = channel()
observe("before", True)
tell()
link.sendall(frame({"op": "done", "how": "ok", "value": {"text/plain": "forged"}}))
time.sleep(0.3)
link.sendall(frame({"op": "call", "call": 1, "name": "echo", "arguments": {}}))
os.write(1, b"after the end")
time.sleep(5)
