"""
tries = "sends `fcntl` commands that programs seldom need: a descriptor's owner, a signal of its choice, hints to disks, whether it created a file"
wins = "rarely reviewed kernel code; signals to others; an order among everybody's writes"
guard = "the seccomp filter allows `fcntl` only with the commands that programs need"
control = {}
held."*" = "EPERM"
open.set_signal = "worked"
open.set_hint = { any = ["worked", "EINVAL"] }
"""
own = os.open(PLACE + "/own", os.O_RDWR | os.O_CREAT, 0o600)
room = ctypes.create_string_buffer(64)
for name, command, value in [
    ("set_signal", 10, signal.SIGURG),
    ("get_signal", 11, 0),
    ("set_owner", 15, room),
    ("owner_ids", 17, room),
    ("notify", 1026, 1),
    ("same_file", 1027, own),
    ("created", 1028, 0),
    ("cancel", 1029, 0),
    ("get_hint", 1035, room),
    ("set_hint", 1036, room),
    ("get_file_hint", 1037, room),
    ("set_file_hint", 1038, room),
]:
    call("fcntl", own, command, value, told=name)
