"""
tries = "lets thirty children take 100 MiB each: each within its own limit"
wins = "thirty times its memory"
guard = "the container's control group: the kernel kills some; where there is none, the runner's watch over the sandbox's sum ends all"
slow = true
uncontrolled = "it would take the machine's memory"
aftermath = true
held.children = 30
held.killed = { min = 20 }
[rootless]
instead = { children = 30 }
outcome = { status = "out_of_memory", error = "out_of_memory" }
# What takes gVisor's kernel beyond the container's bounds ends it, and the job with it.
[runsc]
instead = { children = 30 }
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
ended = living = 0
while ended + living < 30:
    pid, _ = os.waitpid(-1, os.WNOHANG)
    ended += pid > 0
    if not pid:
        os.set_blocking(reader, False)
        try:
            living += len(os.read(reader, 100))
        except BlockingIOError:
            time.sleep(0.01)
# Who had told and was killed later counts twice: what is left now is what counts.
time.sleep(0.2)
while os.waitpid(-1, os.WNOHANG)[0]:
    ended += 1
observe("killed", ended)
