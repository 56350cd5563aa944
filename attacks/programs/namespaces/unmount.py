"""
tries = "unmounts what covers other things: `/proc`, one of its masks, `/tmp`, `/workspace`, `/dev`, `/sys`"
wins = "what is below: the container's own `/proc`, devices, sockets"
guard = "the seccomp filter refuses `umount2`"
control = { within = ["unshare", "--mount"] }
held."*" = "EPERM"
open.proc = "worked"
"""
for name in ("/proc/kcore", "/proc", "/tmp", "/workspace", "/dev", "/sys"):
    call("umount2", name.encode(), 2, told=name.replace("/", " ").split()[-1])
