"""
tries = "calls tools that the job was not given, by frames of its own, and by names that look like paths and patterns"
wins = "a tool of the client's beyond those lent"
guard = "the runner and the worker check each call against the job's list, and answer by themselves"
uncontrolled = "outside of a sandbox there is no channel"
held.errors = 5
outcome = { calls = 0 }
[[tools]]
name = "echo"
"""
import select

link = channel()
NAMES = ["gate", "Echo", "../echo", "echo\0", "*"]
for number, name in enumerate(NAMES):
    link.sendall(frame({"op": "call", "call": number, "name": name, "arguments": {}}))
data, errors = b"", 0
while errors < len(NAMES) and select.select([link], [], [], 5)[0]:
    data += link.recv(65536)
    errors = data.count(b"no such tool")
observe("errors", errors)
