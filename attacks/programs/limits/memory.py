"""
tries = "takes memory until the kernel refuses more, and writes to all of it"
wins = "a machine without memory"
guard = "an rlimit on data; behind it, the container's control group"
uncontrolled = "it would use up the machine's memory"
aftermath = true
held.started = true
outcome = { status = "out_of_memory", error = "out_of_memory" }
# A job that takes gVisor's kernel beyond the container's bounds ends that kernel, and itself.
[runsc]
outcome = { status = "lost", error = "sandbox_lost" }
# The interpreter's error is an exit status like any other.
[bash]
outcome = { status = "failed", error = "code_exited" }
"""
observe("started", True)
tell()
hoard = []
while True:
    hoard.append(bytearray(b"x") * (4 << 20))
