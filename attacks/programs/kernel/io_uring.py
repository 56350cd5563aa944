"""
tries = "calls `io_uring_setup`, `io_uring_enter` and `io_uring_register`"
wins = "system calls that no filter sees, and the kernel code with the most vulnerabilities of its day"
guard = "the seccomp filter refuses all three calls"
control = {}
held."*" = "EPERM"
open.io_uring_setup = "worked"
open.io_uring_enter = "EBADF"
"""
call("io_uring_setup", 1, ctypes.create_string_buffer(120))
call("io_uring_enter", -1, 0, 0, 0, None, 0)
call("io_uring_register", -1, 0, None, 0)
