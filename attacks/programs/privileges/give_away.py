"""
tries = "gives files to root and to others, and makes them immutable"
wins = "files that nobody can remove; a set-user-id file of another user"
guard = "the kernel maps only the job's own user, and the job has no capability"
control = {}
held.root = "EINVAL"
held.group = "EINVAL"
held.immutable = { any = ["EPERM", "ENOTTY", "EOPNOTSUPP"] }
open.root = "worked"
open.group = "worked"
[runsc]
held = { group = "EPERM", root = "EPERM" }
"""
import fcntl

here = PLACE + "/own"
open(here, "w").close()
attempt("root", os.chown, here, 0, -1)
attempt("group", os.chown, here, -1, 0)
if not CONTROL:
    with open(here) as file:
        attempt("immutable", fcntl.ioctl, file, 0x40086602, struct.pack("l", 0x10))
