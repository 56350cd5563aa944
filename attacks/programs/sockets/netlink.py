"""
tries = "opens netlink sockets for routes, audit, netfilter, device events and IPsec"
wins = "what the network looks like; the kernel's most talkative interface"
guard = "the seccomp filter refuses sockets of this family"
control = {}
held."*" = "EPERM"
open.route = "worked"
"""
for name, protocol in [("route", 0), ("audit", 9), ("netfilter", 12), ("uevent", 15), ("xfrm", 6)]:
    attempt(name, lambda: socket.socket(16, socket.SOCK_RAW, protocol).close())
