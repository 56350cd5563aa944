"""
tries = "makes IPv4 sockets of every kind with every protocol from 0 to 300"
wins = "a protocol that the filter overlooks"
guard = "the seccomp filter allows only five pairs of kind and protocol"
control = {}
held.made = [[1, 0], [1, 6], [2, 0], [2, 17], [2, 136]]
held.otherwise = ["EPERM"]
open.made = { none = [[[1, 0], [1, 6], [2, 0], [2, 17], [2, 136]]] }
"""
made, otherwise = [], set()
for kind in range(1, 11):
    for protocol in range(301):
        found = answer(lambda: os.close(syscall("socket", socket.AF_INET, kind | socket.SOCK_CLOEXEC, protocol)))
        if found == "worked" or (kind, protocol) == (2, 136):
            made.append([kind, protocol])
        else:
            otherwise.add(found)
observe("made", made)
observe("otherwise", sorted(otherwise))
