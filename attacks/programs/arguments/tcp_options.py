"""
tries = "sets TCP options that programs seldom need: another layer on top (kernel TLS), repair, signatures, fast open, saved packets"
wins = "kernel code with a history of vulnerabilities; a connection with forged state"
guard = "the seccomp filter allows `setsockopt` only with the options that programs need"
control = {}
held."*" = "EPERM"
open.fast_open = "worked"
open.keep_first = "worked"
"""
made = socket.socket()
for name, option, value in [
    ("layer", 31, b"tls"),
    ("repair", 19, 1),
    ("repair_window", 29, bytes(20)),
    ("signature", 14, bytes(216)),
    ("signature_extended", 32, bytes(216)),
    ("authentication", 38, bytes(256)),
    ("congestion", 13, b"reno"),
    ("fast_open", 23, 5),
    ("fast_open_key", 33, b"x" * 16),
    ("keep_first", 27, 1),
    ("times", 24, 1),
    ("map_received", 35, bytes(64)),
]:
    attempt(name, made.setsockopt, socket.IPPROTO_TCP, option, value)
