"""
tries = "opens kernel settings for writing: `core_pattern`, `modprobe`, `binfmt_misc`, limits that hold for the whole machine"
wins = "a program that the machine's root runs; everybody's limits"
guard = "`/proc` is read-only"
control = {}
held."*" = "EROFS"
open.core_pattern = "worked"
open.pid_max = "worked"
# The kernel checks first who owns a setting, except for those of the sandbox's own ipc namespace.
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
# gVisor's kernel does not have these settings.
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
