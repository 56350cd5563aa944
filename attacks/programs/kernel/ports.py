"""
tries = "asks for the processor's I/O ports and for its own segment table"
wins = "devices, past the kernel"
guard = "the seccomp filter refuses all three calls; the job has no capability either"
control = {}
held."*" = "EPERM"
open.iopl = "worked"
open.modify_ldt = "worked"
"""
call("iopl", 0)
call("ioperm", 0x80, 1, 0)
call("modify_ldt", 0, ctypes.create_string_buffer(64), 64)
