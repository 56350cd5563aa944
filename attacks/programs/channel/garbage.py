"""
tries = "sends bytes that are no JSON, JSON that is no message, and text that is no UTF-8"
wins = "a runner that falls over"
guard = "what does not parse ends the job, and it alone"
uncontrolled = "outside of a sandbox there is no channel"
aftermath = true
held.before = true
outcome = { status = "failed", error = "code_raised", message = "malformed message" }
"""
observe("before", True)
tell()
link = channel()
link.sendall(frame(b'{"op": "display", "data": {"text/plain": "\xff\xfe"}}') + frame(b"[]") + os.urandom(100000))
time.sleep(5)
