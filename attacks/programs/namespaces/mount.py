"""
tries = "mounts a fresh tmpfs and a fresh proc, makes /proc writable again, and shows one place at another"
wins = "a /proc that can be written, or files over those that programs trust"
guard = "seccomp: mount is not in the table; no capability besides"
control = { within = ["unshare", "--mount", "--pid", "--fork"] }
held."*" = "EPERM"
open."*" = "worked"
"""
here = PLACE + "/mount"
os.makedirs(here, exist_ok=True)
call("mount", b"none", here.encode(), b"tmpfs", 0, None, told="tmpfs")
call("mount", b"proc", here.encode(), b"proc", 0, None, told="proc")
call("mount", b"none", b"/proc", None, 0x20 | 0x1000, None, told="remount")
call("mount", b"/usr", here.encode(), None, 0x1000, None, told="bind")
