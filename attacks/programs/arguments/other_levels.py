"""
tries = "sets and reads socket options of other layers: UDP segments and tunnels, raw, packet, netlink, TLS, MPTCP, XDP, crypto"
wins = "rarely reviewed kernel code"
guard = "the seccomp filter allows only the options of sockets, TCP, IPv4 and IPv6"
control = {}
held."*" = "EPERM"
open.segments = "worked"
"""
made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for name, level, option, value in [
    ("segments", 17, 103, 1400),
    ("tunnel", 17, 100, 2),
    ("gather", 17, 104, 1),
    ("raw", 255, 1, 1),
    ("packet", 263, 10, 1),
    ("netlink", 270, 1, 1),
    ("crypto", 279, 1, b"x" * 16),
    ("tls", 282, 1, bytes(40)),
    ("xdp", 283, 4, bytes(24)),
    ("multipath", 284, 1, 1),
    ("sctp", 132, 0, bytes(16)),
]:
    attempt(name, made.setsockopt, level, option, value)
    attempt(name + "_asked", made.getsockopt, level, option, 64)
