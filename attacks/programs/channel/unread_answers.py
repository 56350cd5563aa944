"""
tries = "makes eighty-five calls that are each answered with a megabyte, and reads no answer"
wins = "a runner that holds all the answers"
guard = "while a megabyte of answers waits for a job that does not read, its runner gets no further ones"
slow = true
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.before = true
held.after = true
[[tools]]
name = "large"
"""
observe("before", True)
link = channel()
for number in range(85):
    link.sendall(frame({"op": "call", "call": number, "name": "large", "arguments": {}}))
time.sleep(5)
observe("after", True)
