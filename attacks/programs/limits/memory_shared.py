"""
tries = "takes memory that counts for no process: 16 anonymous files (`memfd_create`) of 60 MiB each"
wins = "a machine without memory, past the limit on a process's own memory"
guard = "the runner's watch on memory counts these files, by the container's control group or by the descriptors that hold them"
uncontrolled = "it would use up the machine's memory"
aftermath = true
limits = { wall_ms = 8000 }
held.started = true
outcome = { status = "out_of_memory", error = "out_of_memory" }
# A job that takes gVisor's kernel beyond the container's bounds ends that kernel, and itself.
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
