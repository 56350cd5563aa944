"""
tries = "sends 300 MB of messages, in frames of 15 MB"
wins = "a runner or a worker without memory"
guard = "a run may send 256 MiB in all; what the runner holds for the worker is bounded, too"
slow = true
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.before = true
outcome = { status = "failed", error = "code_raised", message = "bytes on the job's channel" }
"""
observe("before", True)
tell()
link = channel()
large = frame(b'{"op":"display","data":{"text/plain":"' + b"x" * (15 << 20) + b'"}}')
for _ in range(20):
    link.sendall(large)
time.sleep(5)
