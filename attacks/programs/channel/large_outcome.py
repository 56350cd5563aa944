"""
tries = "makes an outcome that is larger than any message may be: displays and returns 15 MB each, bypassing the harness, and prints bytes that take six times as much space in JSON"
wins = "a result that the broker refuses, and a client that waits forever"
guard = "the worker cuts an outcome to 15 MiB before it is recorded; RabbitMQ accepts 16 MiB"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
slow = true
held.before = true
outcome = { bytes = 16000000 }
# Without an inner wall, the runner does not kill a job that says that it is done.
# The harness then says so a second time at the job's end, which breaks the protocol.
[runsc]
outcome = { status = "failed", error = "code_raised", bytes = 16000000 }
"""
observe("before", True)
tell()
os.write(1, bytes(60000))
link = channel()
text = b"x" * (5 << 20)
for number in range(3):
    link.sendall(frame(b'{"op":"display","data":{"text/plain":"' + text + b'"}}'))
for number in range(15):
    os.write(1, bytes(60000))
    time.sleep(0.01)
link.sendall(frame(b'{"op":"done","how":"ok","value":{"text/plain":"' + text * 3 + b'"}}'))
time.sleep(10)
