"""
tries = "takes the machine's huge pages, where it has some: with `mmap`, with anonymous files, with shared memory"
wins = "memory that no limit of the container counts, and that was set aside for others"
guard = "the seccomp filter refuses the flags for huge pages of `mmap`, `memfd_create` and `shmget`"
machine = "huge_pages"
control = {}
held."*" = "EPERM"
open.mapped = "worked"
open.file = "worked"
"""
SIZE = 2 << 20
libc.mmap.restype = ctypes.c_void_p


def mapped(flags, descriptor):
    ctypes.set_errno(0)
    at = libc.mmap(None, ctypes.c_size_t(SIZE), 3, flags, descriptor, ctypes.c_long(0))
    if at in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "refused")
    ctypes.memset(at, 1, 1)
    libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(SIZE))


attempt("mapped", mapped, 0x40022, -1)
attempt("mapped_sized", mapped, 0x40022 | 21 << 26, -1)
attempt("file", lambda: mapped(1, syscall("memfd_create", b"x", 4)))
attempt("segment", lambda: syscall("shmctl", syscall("shmget", 0, SIZE, 0o4600 | 0o1000), 0, None))
