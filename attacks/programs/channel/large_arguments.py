"""
tries = "calls a tool with arguments of just under 16 MiB"
wins = "a call that the broker refuses, and a worker that tries forever"
guard = "the worker refuses arguments above 15 MiB"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
slow = true
held.refused = true
outcome = { calls = 0 }
[[tools]]
name = "echo"
"""
import select

link = channel()
text = b"x" * ((16 << 20) - 200)
link.sendall(frame(b'{"op":"call","call":1,"name":"echo","arguments":{"x":"' + text + b'"}}'))
observe("refused", bool(select.select([link], [], [], 20)[0]) and b"larger than" in link.recv(65536))
