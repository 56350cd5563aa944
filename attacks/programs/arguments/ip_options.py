"""
tries = "sets IPv4 options that programs seldom need: raw options, IPsec policies, multicast sources, netfilter and multicast routing"
wins = "kernel code with a history of vulnerabilities; kernel memory for long lists of multicast sources"
guard = "the seccomp filter allows `setsockopt` only with the options that programs need"
control = { within = ["unshare", "--net"] }
held."*" = "EPERM"
open.raw_options = "worked"
"""
made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for name, option, value in [
    ("raw_options", 4, b"\1\1\1\1"),
    ("received_options", 6, 1),
    ("returned_options", 7, 1),
    ("policy", 16, bytes(64)),
    ("transform", 17, bytes(168)),
    ("free_bind", 15, 1),
    ("original_address", 20, 1),
    ("source_filter", 41, bytes(64)),
    ("join_group", 42, bytes(136)),
    ("group_filter", 48, bytes(512)),
    ("netfilter", 64, bytes(64)),
    ("arp_tables", 96, bytes(64)),
    ("multicast_routing", 200, 1),
]:
    attempt(name, made.setsockopt, socket.IPPROTO_IP, option, value)
