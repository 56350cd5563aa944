"""
tries = "calls tools that the job was not given, in frames of its own and by names that look like paths and patterns"
wins = "a tool of the client beyond those that the job was given"
guard = "the runner and the worker check each call against the job's list, and answer a refused call themselves"
uncontrolled = "outside a sandbox, there is no channel"
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
