"""
tries = "lets thirty children take 100 MiB each: each within its own limit"
wins = "thirty times its memory"
guard = "the runner's watch over the sandbox's sum ends all; where the kernel kills one for the container's control group first, that ends all, too"
slow = true
uncontrolled = "it would take the machine's memory"
aftermath = true
held.children = 30
outcome = { status = "out_of_memory", error = "out_of_memory" }
# What takes gVisor's kernel beyond the container's bounds ends it, and the job with it.
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
