"""
tries = "walks out of its root: through `..`, through magic links in `/proc`, and with `openat2` without `RESOLVE` flags"
wins = "files above the root"
guard = "the mount namespace has nothing beyond what it shows: every way ends at the sandbox's own root"
uncontrolled = "the machine's root is its own parent, too"
held.dots = true
held.magic_cwd = true
held.magic_root = true
held.openat2 = true
[runsc]
skip = "gVisor has no `openat2`"
"""
root = os.stat("/")


def same(path):
    found = os.stat(path)
    return (found.st_dev, found.st_ino) == (root.st_dev, root.st_ino)


observe("dots", same("/../../../.."))
observe("magic_cwd", same("/proc/self/cwd/../../../.."))
observe("magic_root", same("/proc/self/root/../.."))
handle = syscall("openat2", os.open("/usr", os.O_RDONLY), b"../../../..", struct.pack("3Q", 0, 0, 0), 24)
found = os.fstat(handle)
observe("openat2", (found.st_dev, found.st_ino) == (root.st_dev, root.st_ino))
