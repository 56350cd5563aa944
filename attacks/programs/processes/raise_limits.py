"""
tries = "raises each of its resource limits above what it was given"
wins = "more processes, memory, descriptors or file size than it may have"
guard = "raising a hard limit requires a capability, which the job lacks"
control = {}
held."*" = "EPERM"
open.nofile = "worked"
open.core = "worked"
# On gVisor, this limit bounds nothing: the container's control group does.
[runsc]
held.nproc = "worked"
"""
import resource

LIMITS = {"core": 4, "nofile": 7, "fsize": 1, "nproc": 6, "data": 2, "address_space": 9, "memlock": 8, "msgqueue": 12, "nice": 13, "rtprio": 14}


def raised(which):
    hard = resource.getrlimit(which)[1]
    syscall("prlimit64", 0, which, struct.pack("2Q", hard + 1, hard + 1), None)


for name, which in LIMITS.items():
    if not CONTROL:
        attempt(name, raised, which)
    elif name in ("nofile", "core"):
        resource.setrlimit(which, (16, 16))
        attempt(name, raised, which)
