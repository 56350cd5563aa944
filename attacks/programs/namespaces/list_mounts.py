"""
tries = "asks for the mounts of other namespaces with `listmount` and `statmount`"
wins = "the machine's paths, in more detail than `/proc` shows"
guard = "the seccomp filter refuses both calls"
control = {}
held."*" = "EPERM"
open.listmount = "worked"
# LSMT_ROOT needs a larger request than this one, so the kernel looks at it and then rejects it.
open.statmount = { none = ["EPERM"] }
"""
request = struct.pack("IIQQ", 24, 0, 0xFFFFFFFFFFFFFFFF, 0)
buffer = ctypes.create_string_buffer(4096)
call("listmount", request, buffer, 8, 0)
call("statmount", request, buffer, 4096, 0)
