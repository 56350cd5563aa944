"""
tries = "opens raw and packet sockets: to forge and to listen"
wins = "other people's packets"
guard = "seccomp: no packet sockets; the kernel: no raw ones without a capability"
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
