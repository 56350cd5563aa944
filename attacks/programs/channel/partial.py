"""
tries = "sends the head of a message and never its body, then ends"
wins = "a runner that waits for ever, or takes the next message for the rest of this one"
guard = "what does not parse ends the job; its end is the kernel's word"
uncontrolled = "outside of a sandbox there is no channel"
aftermath = true
held.before = true
outcome = { status = "failed", error = "code_raised", message = "malformed message" }
"""
observe("before", True)
tell()
# The harness's own last message, its value, is then the rest of it.
channel().sendall(struct.pack("<I", 20) + b'{"op":')
