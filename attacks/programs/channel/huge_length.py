"""
tries = "announces a message of four gigabytes"
wins = "a runner that makes room for it, and is killed for memory"
guard = "no message above 16 MiB is taken, and no room is made ahead"
uncontrolled = "outside of a sandbox there is no channel"
aftermath = true
held.before = true
outcome = { status = "failed", error = "code_raised", message = "a message of 4294967295 bytes" }
"""
observe("before", True)
tell()
channel().sendall(struct.pack("<I", 0xFFFFFFFF) + b"x" * 1000)
time.sleep(5)
