"""
tries = "sends the head of a message but never its body, and ends"
wins = "a runner that waits forever, or takes the next message for the rest of this one"
guard = "a message that does not parse ends the job, and the kernel reports the end of its process"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.before = true
outcome = { status = "failed", error = "code_raised", message = "malformed message" }
"""
observe("before", True)
tell()
# The runner then takes the harness's last message, the job's value, for the rest of this one.
channel().sendall(struct.pack("<I", 20) + b'{"op":')
