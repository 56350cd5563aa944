"""
tries = "reads numbers from sockets that belong to the machine or the namespace: cookies, memory, queues, labels, a peer's pidfd and groups"
wins = "marks by which two jobs learn that they share a machine or a container; handles on processes"
guard = "the seccomp filter allows `getsockopt` only with the options that programs need"
control = {}
held."*" = "EPERM"
open.cookie = "worked"
open.memory = "worked"
"""
one, other = socket.socketpair()
made = socket.socket()
for name, asked, option in [
    ("cookie", made, 57),
    ("namespace_cookie", made, 71),
    ("memory", made, 55),
    ("queue", made, 56),
    ("label", one, 31),
    ("peer_groups", one, 59),
    ("peer_process", one, 77),
]:
    attempt(name, asked.getsockopt, socket.SOL_SOCKET, option, 64)
