"""
tries = "asks a pidfd through `ioctl` for each namespace of its process, and for everything known about that process"
wins = "pid 1's namespaces, without a file in `/proc`"
guard = "the seccomp filter allows `ioctl` only with the requests that programs need"
control = {}
held."*" = "EPERM"
open.network = { any = ["worked", "ENOTTY", "EINVAL"] }
[runsc]
skip = "gVisor has no pidfds"
"""
own = syscall("pidfd_open", 1 if not CONTROL else os.getpid(), 0)
for name, request in [
    ("cgroup", 0xFF01),
    ("ipc", 0xFF02),
    ("mounts", 0xFF03),
    ("network", 0xFF04),
    ("pids", 0xFF05),
    ("users", 0xFF09),
    ("names", 0xFF0A),
]:
    call("ioctl", own, request, 0, told=name)
call("ioctl", own, 0xC040FF0B, struct.pack("Q56x", 0xFF), told="all")
