"""
tries = "announces a message of four gigabytes"
wins = "a runner that allocates the memory, and is killed for it"
guard = "the runner refuses messages above 16 MiB, and allocates nothing in advance"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.before = true
outcome = { status = "failed", error = "code_raised", message = "a message of 4294967295 bytes" }
"""
observe("before", True)
tell()
channel().sendall(struct.pack("<I", 0xFFFFFFFF) + b"x" * 1000)
time.sleep(5)
