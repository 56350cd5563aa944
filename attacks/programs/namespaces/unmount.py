"""
tries = "unmounts what covers other things: /proc, its masks, /tmp, /dev, /sys"
wins = "what is below: the container's own /proc, devices, sockets"
guard = "seccomp: umount2 is not in the table"
control = { within = ["unshare", "--mount"] }
held."*" = "EPERM"
open.proc = "worked"
"""
for name in ("/proc/kcore", "/proc", "/tmp", "/workspace", "/dev", "/sys"):
    call("umount2", name.encode(), 2, told=name.replace("/", " ").split()[-1])
