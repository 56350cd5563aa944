"""
tries = "makes an outcome that is larger than any message may be: shows and returns 15 MB each past the harness, and prints what JSON writes sixfold"
wins = "a result that the broker refuses, and a client that waits for ever"
guard = "the worker cuts an outcome to 15 MiB before it is recorded; RabbitMQ takes 16"
uncontrolled = "outside of a sandbox there is no channel"
aftermath = true
slow = true
held.before = true
outcome = { bytes = 16000000 }
# Without an inner wall a job is not killed when it says that it is done: the harness says it again at its end, which breaks the rules.
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
