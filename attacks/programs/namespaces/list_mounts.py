"""
tries = "asks for the mounts of other namespaces by listmount and statmount"
wins = "the machine's paths, in more detail than /proc tells"
guard = "seccomp: neither is in the table"
control = {}
held."*" = "EPERM"
open.listmount = "worked"
# LSMT_ROOT needs a larger request than this one: the kernel gets as far as to look at it.
open.statmount = { none = ["EPERM"] }
"""
request = struct.pack("IIQQ", 24, 0, 0xFFFFFFFFFFFFFFFF, 0)
buffer = ctypes.create_string_buffer(4096)
call("listmount", request, buffer, 8, 0)
call("statmount", request, buffer, 4096, 0)
