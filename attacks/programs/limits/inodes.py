"""
tries = "makes empty files until the kernel refuses, half a million at most"
wins = "kernel memory for each file"
guard = "the storage has a fixed number of files"
uncontrolled = "it would fill the machine's disk"
aftermath = true
held.started = true
held.refused = "ENOSPC"
held.files = { min = 1000, max = 20000 }
# A job that takes gVisor's kernel beyond the container's bounds ends that kernel, and itself.
[runsc]
instead = { started = true }
outcome = { status = "lost", error = "sandbox_lost" }
"""
observe("started", True)
tell()
files = 0
try:
    for files in range(500000):
        os.close(os.open("/tmp/%d" % files, os.O_CREAT | os.O_WRONLY))
except OSError as error:
    observe("refused", errno.errorcode[error.errno])
observe("files", files)
