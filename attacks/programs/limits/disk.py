"""
tries = "fills all writable places, one after the other, with as much as they take"
wins = "the machine's disk or memory"
guard = "all writable places share one storage of a fixed size"
uncontrolled = "it would fill the machine's disk"
aftermath = true
held.tmp = { any = ["ENOSPC", "EFBIG"] }
held.workspace = "ENOSPC"
held.shm = "ENOSPC"
held.mib = { min = 32, max = 64 }
[runsc]
skip = "gVisor's tmpfs has no size of its own: what it holds counts as the container's memory (`limits/memory`)"
"""
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
chunk, written = b"x" * (1 << 20), 0
for name, place in [("tmp", "/tmp"), ("workspace", "/workspace"), ("shm", "/dev/shm")]:
    with open(place + "/filler", "wb", buffering=0) as file:
        try:
            while written < 1 << 30:
                written += file.write(chunk)
                if written > 80 << 20:
                    break
        except OSError as error:
            observe(name, errno.errorcode[error.errno])
observe("mib", written >> 20)
