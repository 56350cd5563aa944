"""
tries = "opens files by handle, past every path: the way out of the first Docker containers (\"shocker\")"
wins = "any file of the file system that the image is on"
guard = "seccomp: neither call is in the table; the kernel asks for a capability besides"
control = {}
held."*" = "EPERM"
open.open_by_handle_at = { none = ["EPERM", "ENOSYS"] }
"""
handle = struct.pack("Ii", 128, 0) + bytes(128)
buffer = ctypes.create_string_buffer(handle, len(handle))
mount = ctypes.c_int(0)
call("name_to_handle_at", -100, b"/usr", buffer, ctypes.byref(mount), 0)
call("open_by_handle_at", os.open("/usr", os.O_RDONLY), buffer, 0)
