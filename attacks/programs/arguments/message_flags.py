"""
tries = "sends messages with flags that programs seldom need: without a copy, before the connection is made, with pages of its own, and flags for the kernel's own use"
wins = "pages that the kernel still reads after they are freed; code for the kernel's own use"
guard = "the seccomp filter allows messages only with the flags that programs need"
control = {}
held."*" = "EPERM"
open.no_copy = "worked"
open.batch = "worked"
"""
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
for name, flag in [
    ("no_copy", 0x4000000),
    ("fast_open", 0x20000000),
    ("pages", 0x8000000),
    ("batch", 0x40000),
    ("not_last", 0x20000),
    ("internal", 0x80000),
    ("probe", 0x10),
]:
    attempt(name, client.send, b"x", flag)
