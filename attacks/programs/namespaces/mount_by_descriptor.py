"""
tries = "mounts with the newer calls: `fsopen`, `fspick`, `open_tree`, `move_mount`, `mount_setattr`"
wins = "a mount past a filter that knows only the old call"
guard = "the seccomp filter refuses all of these calls"
control = { within = ["unshare", "--mount"] }
held."*" = "EPERM"
# Without the filter, the kernel gets as far as checking these arguments.
open.fsopen = "worked"
open.open_tree = "worked"
open.mount_setattr = "worked"
open.move_mount = "EBADF"
open.fsconfig = "EINVAL"
open.fsmount = "EBADF"
open.fspick = "worked"
"""
AT_FDCWD = -100
call("fsopen", b"tmpfs", 0)
call("fsconfig", -1, 0, b"size", b"1", 0)
call("fsmount", -1, 0, 0)
call("fspick", AT_FDCWD, b"/", 0)
call("open_tree", AT_FDCWD, b"/", 1)
call("move_mount", -1, b"", AT_FDCWD, b"/tmp", 4)
call("mount_setattr", AT_FDCWD, b"/", 0, struct.pack("4Q", 0, 1, 0, 0), 32)
