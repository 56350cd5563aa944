"""
tries = "opens kernel settings for writing: core_pattern, modprobe, the hotplug helper, limits that hold for all"
wins = "a program run by the machine's root; everybody's limits"
guard = "/proc is read-only"
control = {}
held."*" = "EROFS"
open.core_pattern = "worked"
open.pid_max = "worked"
# Whose setting it is the kernel looks at first, but for those of the sandbox's own ipc namespace.
held.core_pattern = { any = ["EROFS", "EACCES"] }
held.modprobe = { any = ["EROFS", "EACCES", "ENOENT"] }
held.pid_max = { any = ["EROFS", "EACCES"] }
held.overcommit = { any = ["EROFS", "EACCES"] }
held.drop_caches = { any = ["EROFS", "EACCES"] }
held.forward = { any = ["EROFS", "EACCES"] }
held.watches = { any = ["EROFS", "EACCES"] }
held.shmmax = { any = ["EROFS", "EACCES"] }
held.binfmt = { any = ["ENOENT", "EACCES"] }
held.read_only = true
# Settings that gVisor's kernel does not have.
[runsc]
held = { core_pattern = "ENOENT", drop_caches = "ENOENT", pid_max = "ENOENT", watches = "ENOENT", read_only = false }
"""
SETTINGS = {
    "core_pattern": "kernel/core_pattern",
    "modprobe": "kernel/modprobe",
    "pid_max": "kernel/pid_max",
    "shmmax": "kernel/shmmax",
    "overcommit": "vm/overcommit_memory",
    "drop_caches": "vm/drop_caches",
    "forward": "net/ipv4/ip_forward",
    "watches": "fs/inotify/max_user_instances",
    "binfmt": "fs/binfmt_misc/register",
}
for name, path in SETTINGS.items():
    attempt(name, opened, "/proc/sys/" + path, os.O_WRONLY)
observe("read_only", bool(os.statvfs("/proc").f_flag & os.ST_RDONLY))
