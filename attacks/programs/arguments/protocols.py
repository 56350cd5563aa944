"""
tries = "makes Internet sockets of other protocols: MPTCP, SCTP, DCCP, SMC, ping"
wins = "rarely reviewed kernel code; modules that the kernel loads on request"
guard = "the seccomp filter allows only TCP, UDP and UDP-Lite"
control = {}
held."*" = "EPERM"
open.ping = { any = ["worked", "EACCES"] }
open.raw = "worked"
"""
for name, family, kind, protocol in [
    ("multipath", socket.AF_INET, socket.SOCK_STREAM, 262),
    ("multipath6", socket.AF_INET6, socket.SOCK_STREAM, 262),
    ("sctp", socket.AF_INET, socket.SOCK_STREAM, 132),
    ("sctp_packets", socket.AF_INET, socket.SOCK_SEQPACKET, 132),
    ("dccp", socket.AF_INET, 6, 33),
    ("smc", socket.AF_INET, socket.SOCK_STREAM, 256),
    ("ping", socket.AF_INET, socket.SOCK_DGRAM, 1),
    ("ping6", socket.AF_INET6, socket.SOCK_DGRAM, 58),
    ("raw", socket.AF_INET, socket.SOCK_RAW, 255),
    ("l2tp", socket.AF_INET, socket.SOCK_DGRAM, 115),
]:
    attempt(name, lambda: os.close(syscall("socket", family, kind, protocol)))
