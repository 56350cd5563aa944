"""
tries = "sets IPv6 options that programs seldom need: routing and other headers, flow labels, another address family, IPsec, netfilter"
wins = "kernel code with a history of vulnerabilities (CVE-2016-3841); flow labels that outlive the job"
guard = "the seccomp filter allows `setsockopt` only with the options that programs need"
control = { within = ["unshare", "--net"] }
held."*" = "EPERM"
open.flow_info = "worked"
"""
made = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for name, option, value in [
    ("another_family", 1, socket.AF_INET),
    ("packet_options", 6, bytes(16)),
    ("checksum", 7, 2),
    ("authenticated", 10, 1),
    ("any_join", 27, bytes(20)),
    ("flow_label", 32, bytes(32)),
    ("flow_info", 33, 1),
    ("policy", 34, bytes(64)),
    ("hop_options", 54, bytes(8)),
    ("routing", 57, bytes(24)),
    ("destination_options", 59, bytes(8)),
    ("netfilter", 64, bytes(64)),
    ("original_address", 74, 1),
    ("multicast_routing", 200, 1),
]:
    attempt(name, made.setsockopt, socket.IPPROTO_IPV6, option, value)
