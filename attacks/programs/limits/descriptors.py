"""
tries = "opens descriptors until it can't, and lets children do the same"
wins = "a machine without descriptors"
guard = "rlimit on descriptors for each process, and on processes"
uncontrolled = "it would take the machine's descriptors"
aftermath = true
held.started = true
held.refused = "EMFILE"
held.open = { max = 1024 }
held.children = 20
# What takes gVisor's kernel beyond the container's bounds ends it, and the job with it.
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
