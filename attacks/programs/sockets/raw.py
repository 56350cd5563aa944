"""
tries = "opens raw and packet sockets, to forge packets and to listen"
wins = "others' packets"
guard = "the seccomp filter refuses raw and packet sockets; the kernel also requires a capability, which the job lacks"
control = {}
held."*" = "EPERM"
open.raw = "worked"
open.icmp = "worked"
open.packet = "worked"
"""
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).close())
attempt("icmp", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close())
attempt("packet", lambda: socket.socket(17, socket.SOCK_RAW, 0x0300).close())
attempt("packet_dgram", lambda: socket.socket(17, socket.SOCK_DGRAM, 0x0300).close())
