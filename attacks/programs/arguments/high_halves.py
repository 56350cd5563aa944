"""
tries = "makes refused requests with extra bits set above those that the kernel looks at"
wins = "calls that pass a filter which compares more bits than the kernel"
guard = "the seccomp filter compares only the low half of such an argument, as the kernel does"
control = {}
held."*" = "EPERM"
open.lease = "worked"
open.cold = "worked"
"""
HIGH = 1 << 32
signal.signal(signal.SIGIO, signal.SIG_IGN)
own = os.open(PLACE + "/own", os.O_RDONLY | os.O_CREAT, 0o600)
call("fcntl", own, HIGH | 1024, 0, told="lease")
call("ioctl", own, HIGH | 2, bytes(8), told="block_size")
room = ctypes.create_string_buffer(1 << 14)
call("madvise", ctypes.addressof(room) + 4095 & ~4095, 4096, HIGH | 20, told="cold")
call("memfd_create", b"x", HIGH | 4, told="huge")
made = socket.socket()
call("setsockopt", made.fileno(), HIGH | 1, 60, struct.pack("i", 1), 4, told="level")
call("setsockopt", made.fileno(), 1, HIGH | 60, struct.pack("i", 1), 4, told="option")
call("socket", HIGH | 2, HIGH | 3, HIGH | 1, told="raw")
call("prctl", HIGH | 4, 0, 0, 0, 0, told="dumpable")
if CONTROL:
    call("fcntl", own, 1024, 2, told="unleased")
