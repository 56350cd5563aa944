"""
tries = "sends a socket the `ioctl` requests that are meant for drivers, bridges, tunnels and routes"
wins = "kernel code of devices that no job has"
guard = "the seccomp filter allows `ioctl` only with the requests that programs need"
control = { within = ["unshare", "--net"] }
held."*" = "EPERM"
open.queue = "worked"
"""
made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for name, request in [
    ("queue", 0x8942),
    ("mtu", 0x8922),
    ("multicast", 0x8931),
    ("ethtool", 0x8946),
    ("mii", 0x8947),
    ("timestamps", 0x89B0),
    ("bridge", 0x8940),
    ("add_bridge", 0x89A0),
    ("tunnel", 0x89F0),
    ("wireless", 0x8B01),
    ("stamp", 0x8906),
    ("unix_file", 0x89E0),
]:
    call("ioctl", made.fileno(), request, struct.pack("16s240x", b"lo"), told=name)
