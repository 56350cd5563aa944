"""
tries = "makes device nodes in writable places, and opens them"
wins = "the machine's memory and disks"
guard = "making a node requires a capability, which the job lacks; the places are also mounted `nodev`"
control = {}
held.block = "EPERM"
held.character = "EPERM"
held.shm = "EPERM"
held.nodev = true
held.opened = "ENOENT"
open.character = "worked"
# On gVisor, anybody may make a node there, but no such device is behind it.
[runsc]
held = { block = "EROFS", character = "EROFS", shm = "worked", nodev = false, opened = "ENXIO" }
"""
import stat

here = TARGET["folder"] if CONTROL else "/workspace"
attempt("character", os.mknod, here + "/mem", 0o600 | stat.S_IFCHR, os.makedev(1, 1))
attempt("block", os.mknod, here + "/disk", 0o600 | stat.S_IFBLK, os.makedev(8, 0))
if not CONTROL:
    attempt("shm", os.mknod, "/dev/shm/mem", 0o600 | stat.S_IFCHR, os.makedev(1, 1))
    attempt("opened", opened, "/dev/shm/mem")
places = ("/tmp", "/workspace", "/dev/shm")
observe("nodev", all(os.statvfs(place).f_flag & os.ST_NODEV for place in places))
