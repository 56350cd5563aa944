"""
tries = "makes calls that no program has needed for years: `uselib`, `sysfs`, `ustat`, `vhangup`, `lookup_dcookie`, `nfsservctl`"
wins = "rarely reviewed kernel code"
guard = "the seccomp filter denies by default"
control = {}
held."*" = "EPERM"
open.sysfs = { none = ["EPERM"] }
"""
call("sysfs", 3)
call("ustat", 0, ctypes.create_string_buffer(64))
call("uselib", b"/no_such_file")
call("lookup_dcookie", 0, None, 0)
call("nfsservctl", 0, None, None)
if not CONTROL:
    call("vhangup")
