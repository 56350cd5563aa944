"""
tries = "displays and returns JSON that some parsers accept and others refuse: lone surrogates, numbers beyond every range, the same key twice"
wins = "an outcome that nobody can read, and a client that waits forever"
guard = "the worker parses what it passes on, and puts a note in place of what others can't read"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.before = true
# Without an inner wall, the runner does not kill a job that says that it is done.
# The harness then says so a second time at the job's end, which breaks the protocol.
[runsc]
outcome = { status = "failed", error = "code_raised" }
"""
observe("before", True)
tell()
link = channel()
ODD = [rb'"\ud800"', b"1e999999", b"-0.0e-999999", b"123456789012345678901234567890" * 20, b'{"a":1,"a":2}', rb'"\u0000"']
for text in ODD:
    link.sendall(frame(b'{"op":"display","data":{"application/x-odd":' + text + b"}}"))
link.sendall(frame(b'{"op":"display","data":{"\\ud800":1}}'))
link.sendall(frame(b'{"op":"done","how":"ok","value":{"application/x-odd":' + ODD[0] + b"}}"))
time.sleep(5)
