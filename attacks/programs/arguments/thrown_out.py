"""
tries = "throws the interpreter's pages out of the cache: by fadvise, by madvise (cold, page out), by readers that do not keep"
wins = "everybody's programs start slowly; and what is back after a while was read by somebody"
guard = "seccomp: none of these advices and flags is in the table"
control = {}
held."*" = "EPERM"
open.advised = "worked"
open.cold = "worked"
"""
shown = os.open("/usr/bin/env", os.O_RDONLY)
attempt("advised", os.posix_fadvise, shown, 0, 0, os.POSIX_FADV_DONTNEED)
room = ctypes.create_string_buffer(1 << 14)
at = ctypes.addressof(room) + 4095 & ~4095
call("madvise", at, 4096, 20, told="cold")
call("madvise", at, 4096, 21, told="out")
piece = struct.pack("QQ", at, 1024)
call("preadv2", shown, piece, 1, 0, 0, 0x80, told="not_kept")
