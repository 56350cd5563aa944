"""
tries = "asks which pages of a shown file are in the page cache: with `mincore`, with `cachestat`, with reads that do not wait (`RWF_NOWAIT`)"
wins = "what others on the machine run and read, as it happens"
guard = "the seccomp filter refuses `mincore` and `cachestat`, and `preadv2` with this flag"
control = {}
held."*" = "EPERM"
open.mapped = "worked"
open.read = { any = ["worked", "EAGAIN", "EOPNOTSUPP"] }
"""
import mmap

shown = os.open("/usr/bin/env", os.O_RDONLY)
room = mmap.mmap(shown, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
at = ctypes.addressof(ctypes.c_char.from_buffer(room))
told = ctypes.create_string_buffer(64)
call("mincore", at, 4096, told, told="mapped")
call("cachestat", shown, struct.pack("QQ", 0, 4096), told, 0, told="counted")
own = ctypes.create_string_buffer(16)
piece = struct.pack("QQ", ctypes.addressof(own), 16)
call("preadv2", shown, piece, 1, 0, 0, 8, told="read")
