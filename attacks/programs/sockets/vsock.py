"""
tries = "connects to the hypervisor and to the machine by vsock, which ignores network namespaces"
wins = "the hypervisor's agent"
guard = "the seccomp filter refuses sockets of this family"
control = {}
held."*" = "EPERM"
open.stream = { any = ["worked", "EAFNOSUPPORT"] }
"""
attempt("stream", lambda: socket.socket(40, socket.SOCK_STREAM, 0).close())
attempt("datagram", lambda: socket.socket(40, socket.SOCK_DGRAM, 0).close())
