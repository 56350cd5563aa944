"""
tries = "calls a tool with JSON that is nested two million levels deep, displays such JSON and returns it"
wins = "a stack overflow in the runner, the worker, the scheduler or the client"
guard = "the parsers have a depth limit; what they refuse is refused to this job alone"
slow = true
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.answered = true
outcome = { calls = 0 }
[[tools]]
name = "echo"
# Without an inner wall, the runner does not kill a job that says that it is done.
# The harness then says so a second time at the job's end, which breaks the protocol.
[runsc]
outcome = { status = "failed", error = "code_raised", calls = 0 }
"""
import select

link = channel()
deep = b"[" * 2000000 + b"]" * 2000000
link.sendall(frame(b'{"op":"call","call":1,"name":"echo","arguments":{"x":' + deep + b"}}"))
observe("answered", bool(select.select([link], [], [], 10)[0]) and b"error" in link.recv(65536))
tell()
link.sendall(frame(b'{"op":"display","data":{"application/json":' + deep + b"}}"))
link.sendall(frame(b'{"op":"done","how":"ok","value":{"application/json":' + deep + b"}}"))
time.sleep(5)
