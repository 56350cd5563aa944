"""
tries = "makes anonymous files with flags that programs don't need: huge pages, huge pages of each size, and unknown flags"
wins = "the machine's huge pages, which the container's memory limit does not count"
guard = "the seccomp filter allows `memfd_create` only with the flags that programs need"
control = {}
held."*" = "EPERM"
held.plain = "worked"
open.huge = { any = ["worked", "ENOENT"] }
open.unknown = "EINVAL"
"""
for name, flags in [("huge", 4), ("huge_2m", 4 | 21 << 26), ("huge_1g", 4 | 30 << 26), ("unknown", 0x20)]:
    call("memfd_create", b"x", flags, told=name)
call("memfd_create", b"x", 3, told="plain")
