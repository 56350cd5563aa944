"""
tries = "sends `ioctl` requests to files: flags, extents, the file system's identity and label, projects; clone, compare and trim"
wins = "which disk this is, where files are on it, whether another's file has the same content (`FIDEDUPERANGE`), load on the machine's disk"
guard = "the seccomp filter allows `ioctl` only with the requests that programs need"
control = {}
held."*" = "EPERM"
open.block_size = "worked"
"""
own = os.open(PLACE + "/own", os.O_RDWR | os.O_CREAT, 0o600)
shown = os.open("/usr/bin/env", os.O_RDONLY)
for name, request in [
    ("block_size", 2),
    ("map", 1),
    ("get_flags", 0x80086601),
    ("version", 0x80087601),
    ("extents", 0xC020660B),
    ("uuid", 0x80111500),
    ("sysfs_path", 0x80811501),
    ("label", 0x81009431),
    ("project", 0x801C581F),
    ("statistics", 0x80804400),
]:
    call("ioctl", shown, request, ctypes.create_string_buffer(512), told=name)
for name, request in [("set_flags", 0x40086602), ("clone", 0x40049409), ("clone_range", 0x4020940D), ("compare", 0xC0189436)]:
    call("ioctl", own, request, ctypes.create_string_buffer(512), told=name)
if not CONTROL:
    call("ioctl", own, 0xC0185879, bytes(24), told="trim")
