"""
tries = "takes memory that counts as nobody's: anonymous files (memfd), 16 of 60 MiB each"
wins = "a machine without memory, past the limit on a process's own"
guard = "the runner's watch counts it: by the container's control group, or by the descriptors that hold it"
uncontrolled = "it would take the machine's memory"
aftermath = true
limits = { wall_ms = 8000 }
held.started = true
outcome = { status = "out_of_memory", error = "out_of_memory" }
# What takes gVisor's kernel beyond the container's bounds ends it, and the job with it.
[runsc]
outcome = { status = "lost", error = "sandbox_lost" }
"""
observe("started", True)
tell()
chunk, handles = b"x" * (1 << 20), []
for number in range(16):
    handles.append(os.memfd_create("hoard"))
    for _ in range(60):
        os.write(handles[-1], chunk)
observe("taken", "960 MiB")
