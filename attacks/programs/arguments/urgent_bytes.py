"""
tries = "sends and receives urgent bytes (`MSG_OOB`) on Unix and TCP sockets, with every call that takes flags"
wins = "freed kernel memory: a Unix socket's urgent byte was a way out of browser sandboxes (CVE-2025-38236)"
guard = "the seccomp filter allows messages only with the flags that programs need"
control = {}
held."*" = "EPERM"
open.unix = { any = ["worked", "EOPNOTSUPP"] }
open.internet = "worked"
"""
one, other = socket.socketpair()
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
attempt("unix", one.send, b"!", socket.MSG_OOB)
attempt("unix_message", one.sendmsg, [b"!"], [], socket.MSG_OOB)
attempt("internet", client.send, b"!", socket.MSG_OOB)
other.setblocking(False)
attempt("received", other.recv, 1, socket.MSG_OOB)
attempt("received_message", other.recvmsg, 1, 0, socket.MSG_OOB)
attempt("peeked", other.recv, 1, socket.MSG_OOB | socket.MSG_PEEK)
