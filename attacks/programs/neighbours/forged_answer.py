"""
tries = "forges answers to a tool call that a job in another container waits for, under every likely number"
wins = "another job's tool results"
guard = "the runner accepts no answers from a job; the runner and the worker number the calls, with 128 random bits on the wire"
uncontrolled = "outside a sandbox, there is no channel"
held.sent = 64
held.answer = { mine = true }
outcome = { status = "failed", error = "code_raised", message = 'unexpected "result"' }
[bash]
skip = "it speaks on the channel of Python's harness"
"""
link = channel()
observe("sent", 64)
tell()
for number in range(64):
    link.sendall(frame({"op": "result", "call": number, "ok": {"mine": False}}))
time.sleep(5)
# --- the neighbour
observe("answer", gate.sync(mine=True))
