"""
tries = "says that it is done, with a value of its choice, and runs on: calls a tool, prints, shows"
wins = "work that is counted for nobody, after its result is out"
guard = "the sandbox is killed as soon as its program says that it is done; a job's value is its own anyway"
uncontrolled = "outside of a sandbox there is no channel"
aftermath = true
held.before = true
outcome = { calls = 0, stdout = "" }
[[tools]]
name = "echo"
# Without an inner wall a job is not killed when it says that it is done: the harness says it again at its end, which breaks the rules.
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
