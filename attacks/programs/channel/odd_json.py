"""
tries = "shows and returns JSON that one parser takes and the next may not: lone surrogates, numbers beyond all bounds, the same key twice"
wins = "an outcome that nobody can read, and a client that waits for ever"
guard = "the worker reads what it hands on; in place of what can't be read by others it shows a note"
uncontrolled = "outside of a sandbox there is no channel"
aftermath = true
held.before = true
# Without an inner wall a job is not killed when it says that it is done: the harness says it again at its end, which breaks the rules.
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
