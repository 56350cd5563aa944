"""
tries = "mounts a fresh tmpfs and a fresh proc, makes `/proc` writable again, and mounts one folder over another"
wins = "a `/proc` that can be written, or its own files over those that programs trust"
guard = "the seccomp filter refuses `mount`; the job has no capability either"
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
