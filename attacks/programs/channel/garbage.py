"""
tries = "sends bytes that are not JSON, JSON that is not a message, and text that is not UTF-8"
wins = "a runner that crashes"
guard = "a message that does not parse ends the job, and only this job"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.before = true
outcome = { status = "failed", error = "code_raised", message = "malformed message" }
"""
observe("before", True)
tell()
link = channel()
link.sendall(frame(b'{"op": "display", "data": {"text/plain": "\xff\xfe"}}') + frame(b"[]") + os.urandom(100000))
time.sleep(5)
