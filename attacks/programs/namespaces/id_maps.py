"""
tries = "writes its own user and group maps, to be root of its namespace"
wins = "ids that it should not have"
guard = "`/proc` is read-only; the maps are already written, and can be written only once"
control = {}
held.uid_map = "EROFS"
held.gid_map = "EROFS"
held.setgroups = "EROFS"
held.maps = ["1000 0 1", "1000 0 1"]
open.setgroups = "worked"
open.uid_map = "worked"
[runsc]
held = { uid_map = "EACCES", gid_map = "EACCES", setgroups = "ENOENT", maps = ["0 0 4294967295", "0 0 4294967295"] }
"""


def write(path, text):
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text)
    finally:
        os.close(handle)


if CONTROL:
    syscall("unshare", 0x10000000)
attempt("setgroups", write, "/proc/self/setgroups", b"deny")
attempt("uid_map", write, "/proc/self/uid_map", b"0 0 1")
attempt("gid_map", write, "/proc/self/gid_map", b"0 0 1")
observe("maps", [" ".join(open("/proc/self/" + name).read().split()) for name in ("uid_map", "gid_map")])
