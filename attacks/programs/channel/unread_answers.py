"""
tries = "makes eighty-five calls that are answered by a megabyte each, and reads none"
wins = "a runner that holds them all"
guard = "what waits for a job that does not read is bounded (64 MiB); then it ends"
slow = true
uncontrolled = "outside of a sandbox there is no channel"
aftermath = true
held.before = true
outcome = { status = "failed", error = "code_raised", message = "does not read" }
[[tools]]
name = "large"
"""
observe("before", True)
tell()
link = channel()
for number in range(85):
    link.sendall(frame({"op": "call", "call": number, "name": "large", "arguments": {}}))
time.sleep(20)
