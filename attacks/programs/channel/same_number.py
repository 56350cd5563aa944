"""
tries = "makes three calls under one number, one under the highest number, and one without a number"
wins = "an answer that was meant for another call; a runner that loses count"
guard = "the runner numbers the calls itself, and only echoes the job's number"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.answers = 4
held.values = [1, 2, 3, 4]
outcome = { status = "failed", error = "code_raised", message = "without number" }
[[tools]]
name = "echo"
"""
import re
import select

link = channel()
for value, number in enumerate([7, 7, 7, 4294967295], 1):
    link.sendall(frame({"op": "call", "call": number, "name": "echo", "arguments": {"value": value}}))
data = b""
while data.count(b'"op":"result"') < 4 and select.select([link], [], [], 5)[0]:
    data += link.recv(65536)
observe("answers", data.count(b'"op":"result"'))
observe("values", sorted(int(value) for value in re.findall(rb'"value":\s*(\d)', data)))
tell()
link.sendall(frame({"op": "call", "name": "echo", "arguments": {}}))
time.sleep(5)
