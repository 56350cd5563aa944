"""
tries = "takes memory until it can't, and writes to all of it"
wins = "a machine without memory"
guard = "rlimit on data; the container's control group behind it"
uncontrolled = "it would take the machine's memory"
aftermath = true
held.started = true
outcome = { status = "out_of_memory", error = "out_of_memory" }
# What takes gVisor's kernel beyond the container's bounds ends it, and the job with it.
[runsc]
outcome = { status = "lost", error = "sandbox_lost" }
"""
observe("started", True)
tell()
hoard = []
while True:
    hoard.append(bytearray(b"x") * (4 << 20))
