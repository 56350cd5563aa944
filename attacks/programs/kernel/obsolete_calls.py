"""
tries = "calls what nobody has needed for years: uselib, sysfs, ustat, vhangup, lookup_dcookie, nfsservctl"
wins = "code that nobody looks after"
guard = "seccomp: the default is to deny"
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
