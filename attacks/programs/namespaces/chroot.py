"""
tries = "changes its root with `chroot` and `pivot_root`, the first step of the classic escapes from a jail"
wins = "a root above its own"
guard = "the seccomp filter refuses both calls"
control = { within = ["unshare", "--mount"] }
held.chroot = "EPERM"
held.pivot_root = "EPERM"
held.parent_of_root = "/"
open.chroot = "worked"
open.pivot_root = { any = ["EINVAL", "EBUSY"] }
"""
observe("parent_of_root", "/" if os.stat("/..").st_ino == os.stat("/").st_ino else "elsewhere")
call("pivot_root", b"/tmp", b"/tmp")
call("chroot", b"/tmp")
