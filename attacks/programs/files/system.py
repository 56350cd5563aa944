"""
tries = "writes to every part of the file tree: `/`, `/etc`, `/usr`, `/dev`, `/sys`, `/proc`, and the caches of compiled Python"
wins = "its own code in the next job's interpreter"
guard = "everything except `/tmp`, `/workspace`, `/session` and `/dev/shm` is mounted read-only"
control = {}
held."*" = { any = ["EROFS", "EACCES"] }
held.proc = { any = ["ENOENT", "EROFS", "EACCES"] }
held.writable = ["/dev/shm", "/session", "/tmp", "/workspace"]
open.cache = "worked"
# These places are writable by their flags alone: all but /dev/shm and /tmp refuse writes, as above.
[runsc]
held.writable = ["/", "/dev", "/dev/pts", "/dev/shm", "/proc", "/run/thermae", "/sys", "/tmp"]
"""
import sysconfig

cache = os.path.dirname(os.__file__) + "/__pycache__"
if CONTROL:
    attempt("cache", os.mkdir, cache + "/thermae")
    os.rmdir(cache + "/thermae")
else:
    for name, place in [("root", ""), ("etc", "/etc"), ("usr", "/usr"), ("bin", "/usr/bin"), ("dev", "/dev"), ("sys", "/sys"), ("proc", "/proc")]:
        attempt(name, open, place + "/written", "w")
    attempt("cache", os.mkdir, cache + "/thermae")
    attempt("packages", os.mkdir, sysconfig.get_paths()["purelib"] + "/thermae")
# The flags are asked for by path, because one mount may cover another.
mounts = [line.split() for line in open("/proc/self/mounts")]
places = {mount[1] for mount in mounts if os.path.isdir(mount[1])}
observe("writable", sorted(place for place in places if not os.statvfs(place).f_flag & os.ST_RDONLY))
