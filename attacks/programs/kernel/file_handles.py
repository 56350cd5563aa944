"""
tries = "opens files by handle, past every path: the escape from the first Docker containers (\"shocker\")"
wins = "any file of the file system that holds the image"
guard = "the seccomp filter refuses both calls; the kernel also requires a capability"
control = {}
held."*" = "EPERM"
open.open_by_handle_at = { none = ["EPERM", "ENOSYS"] }
"""
handle = struct.pack("Ii", 128, 0) + bytes(128)
buffer = ctypes.create_string_buffer(handle, len(handle))
mount = ctypes.c_int(0)
call("name_to_handle_at", -100, b"/usr", buffer, ctypes.byref(mount), 0)
call("open_by_handle_at", os.open("/usr", os.O_RDONLY), buffer, 0)
