"""
tries = "opens devices: memory, disks, consoles, terminals, KVM, tunnels, FUSE, loop, framebuffer, input"
wins = "the machine"
guard = "`/dev` has only `null`, `zero`, `full`, `random`, `urandom` and the links to the job's own descriptors"
control = {}
held.listed = ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]
held."*" = "ENOENT"
open.kmsg = "worked"
open.ptmx = "worked"
# These are devices of gVisor's own kernel, not of the machine.
[runsc.held]
fuse = "worked"
"net/tun" = "worked"
ptmx = "worked"
tty = "EIO"
listed = ["fd", "full", "fuse", "net", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"]
"""
observe("listed", sorted(os.listdir("/dev")))
NODES = "mem kmem port kmsg kvm vda sda nvme0n1 console tty tty0 ptmx fuse loop-control mapper/control fb0 vhost-net snapshot hpet"
for name in NODES.split() + ["net/tun", "input/event0", "cpu/0/msr", "dri/card0", "vsock", "userfaultfd"]:
    attempt(name, opened, "/dev/" + name, os.O_RDWR)
