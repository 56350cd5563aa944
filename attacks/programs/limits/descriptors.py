"""
tries = "opens descriptors until the kernel refuses, and makes children do the same"
wins = "a machine without descriptors"
guard = "an rlimit on the descriptors of each process, and one on processes"
uncontrolled = "it would use up the machine's descriptors"
aftermath = true
held.started = true
held.refused = "EMFILE"
held.open = { max = 1024 }
held.children = 20
# A job that takes gVisor's kernel beyond the container's bounds ends that kernel, and itself.
[runsc]
instead = { started = true }
outcome = { status = "lost", error = "sandbox_lost" }
"""
observe("started", True)
tell()
for _ in range(20):
    if os.fork() == 0:
        try:
            while True:
                os.open("/dev/null", os.O_RDONLY)
        except OSError:
            signal.pause()
observe("children", 20)
opened_here = []
try:
    while True:
        opened_here.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    observe("refused", errno.errorcode[error.errno])
observe("open", max(opened_here) + 1)
for handle in opened_here:
    os.close(handle)
