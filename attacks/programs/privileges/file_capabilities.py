"""
tries = "gives a program of its own file capabilities and a `trusted` attribute"
wins = "a capability at the next `exec`"
guard = "the kernel requires a capability to set them, which the job lacks; `no_new_privs` is set"
control = {}
held.capability = "EPERM"
held.trusted = "EPERM"
open.capability = "worked"
[runsc]
held.capability = "ENOTSUP"
"""
here = PLACE + "/program"
open(here, "w").close()
attempt("capability", os.setxattr, here, "security.capability", struct.pack("<5I", 0x2000001, 1 << 21, 0, 0, 0))
attempt("trusted", os.setxattr, here, "trusted.thermae", b"x")
