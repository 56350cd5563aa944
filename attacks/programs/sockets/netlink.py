"""
tries = "asks for addresses, routes and rules by netlink, and for the kernel's audit"
wins = "what the network looks like, and the kernel's most spoken interface"
guard = "seccomp: no socket of that family"
control = {}
held."*" = "EPERM"
open.route = "worked"
"""
for name, protocol in [("route", 0), ("audit", 9), ("netfilter", 12), ("uevent", 15), ("xfrm", 6)]:
    attempt(name, lambda: socket.socket(16, socket.SOCK_RAW, protocol).close())
