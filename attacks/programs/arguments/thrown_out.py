"""
tries = "drops pages from the page cache: with `fadvise` on a shown file, with `madvise` (cold, page out), with reads that keep nothing in the cache"
wins = "slow starts of everybody's programs; knowledge of what others read, because those pages come back"
guard = "the seccomp filter refuses these advice values and flags"
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
