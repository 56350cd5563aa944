"""
tries = "asks namespaces through `ioctl` for their owner, their parent, their kind, and other namespaces of their kind"
wins = "a descriptor of a namespace that the job is not in"
guard = "the seccomp filter allows `ioctl` only with the requests that programs need"
control = {}
held."*" = "EPERM"
open.kind = "worked"
open.owner = "worked"
[runsc]
skip = "gVisor has no files for most namespaces"
"""
own = os.open("/proc/self/ns/ipc", os.O_RDONLY)
users = os.open("/proc/self/ns/user", os.O_RDONLY)
for name, asked, request in [
    ("owner", own, 0xB701),
    ("parent", users, 0xB702),
    ("kind", own, 0xB703),
    ("owner_user", users, 0xB704),
    ("mount_id", own, 0x8008B705),
    ("pid", own, 0x8004B706),
    ("tid", own, 0x8004B707),
    ("next", own, 0x8010B70B),
]:
    call("ioctl", asked, request, ctypes.create_string_buffer(64), told=name)
