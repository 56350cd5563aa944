"""
tries = "sets an io_uring up, and enters and registers one"
wins = "system calls that no filter sees, and the kernel code with the most holes of its day"
guard = "seccomp: none of the three is in the table"
control = {}
held."*" = "EPERM"
open.io_uring_setup = "worked"
open.io_uring_enter = "EBADF"
"""
call("io_uring_setup", 1, ctypes.create_string_buffer(120))
call("io_uring_enter", -1, 0, 0, 0, None, 0)
call("io_uring_register", -1, 0, None, 0)
