"""
tries = "makes a socket of every family from 1 to 46"
wins = "rarely reviewed kernel code, and ways past the network namespace: vsock, netlink, Bluetooth, AF_ALG"
guard = "the seccomp filter allows `socket` and `socketpair` only with the families Unix, IPv4 and IPv6"
control = {}
held.made = [1, 2, 10]
held.otherwise = ["EPERM"]
open.made = { none = [[1, 2, 10]] }
"""
made, otherwise = set(), set()
for family in range(1, 47):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        found = answer(lambda: os.close(syscall("socket", family, kind, 0)))
        if found == "worked":
            made.add(family)
        elif family not in (1, 2, 10):
            otherwise.add(found)
observe("made", sorted(made))
observe("otherwise", sorted(otherwise))
