"""
tries = "asks for the processor's I/O ports, and changes its segment table"
wins = "the devices past the kernel"
guard = "seccomp: none of the three is in the table; no capability besides"
control = {}
held."*" = "EPERM"
open.iopl = "worked"
open.modify_ldt = "worked"
"""
call("iopl", 0)
call("ioperm", 0x80, 1, 0)
call("modify_ldt", 0, ctypes.create_string_buffer(64), 64)
