"""
tries = "makes eighty-five calls that are each answered with a megabyte, and reads no answer"
wins = "a runner that holds all the answers"
guard = "answers that wait for a job that does not read are bounded (64 MiB); beyond that, the job is ended"
slow = true
uncontrolled = "outside a sandbox, there is no channel"
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
