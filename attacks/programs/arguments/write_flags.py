"""
tries = "writes with flags that programs seldom need: atomic, not cached, not waiting, not at the end"
wins = "rarely reviewed kernel code"
guard = "the seccomp filter allows `preadv2` and `pwritev2` only with the flags that programs need"
control = {}
held."*" = "EPERM"
held.plain = "worked"
open.plain = "worked"
open.not_waiting = { none = ["EPERM"] }
"""
own = os.open(PLACE + "/own", os.O_RDWR | os.O_CREAT, 0o600)
room = ctypes.create_string_buffer(b"x" * 16, 16)
piece = struct.pack("QQ", ctypes.addressof(room), 16)
for name, flags in [("not_waiting", 8), ("not_at_end", 0x20), ("unbroken", 0x40), ("not_kept", 0x80), ("unknown", 0x100)]:
    call("pwritev2", own, piece, 1, 0, 0, flags, told=name)
call("pwritev2", own, piece, 1, 0, 0, 4, told="plain")
