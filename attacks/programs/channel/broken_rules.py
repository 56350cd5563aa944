"""
tries = "calls its tool with arguments that break the schema, with arguments that are not an object, and more often than allowed, bypassing the harness, which would notice"
wins = "calls that the client has forbidden"
guard = "the runner requires an object; the worker checks the schema and the number of calls before a call leaves the machine"
uncontrolled = "outside a sandbox, there is no channel"
held.answers = 5
held.refused = 3
outcome = { calls = 2 }
[[tools]]
name = "echo"
max_calls = 2
input_schema = { type = "object", properties = { n = { type = "integer" } }, required = ["n"], additionalProperties = false }
"""
import select

link = channel()
ARGUMENTS = [{"n": "text"}, [1], {"n": 1}, {"n": 2}, {"n": 3}]
data, answers = b"", 0
for number, arguments in enumerate(ARGUMENTS):
    link.sendall(frame({"op": "call", "call": number, "name": "echo", "arguments": arguments}))
    while data.count(b'"op":"result"') <= number and select.select([link], [], [], 5)[0]:
        data += link.recv(65536)
observe("answers", data.count(b'"op":"result"'))
observe("refused", data.count(b'"error"'))
