"""
tries = "starts thirty children that take 100 MiB each, every one within its own limit"
wins = "thirty times its memory"
guard = "the runner's watch on the memory of the whole sandbox ends the job; if the kernel first kills a process for the container's control group, the runner ends the job, too"
slow = true
uncontrolled = "it would use up the machine's memory"
aftermath = true
held.children = 30
outcome = { status = "out_of_memory", error = "out_of_memory" }
# A job that takes gVisor's kernel beyond the container's bounds ends that kernel, and itself.
[runsc]
outcome = { status = "lost", error = "sandbox_lost" }
"""
observe("children", 30)
tell()
reader, writer = os.pipe()
for _ in range(30):
    if os.fork() == 0:
        os.close(reader)
        hoard = bytearray(b"x") * (100 << 20)
        os.write(writer, b"x")
        signal.pause()
        os._exit(0)
os.close(writer)
for taken in range(30):
    if not os.read(reader, 1):
        break
observe("taken", taken)
