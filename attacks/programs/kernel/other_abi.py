"""
tries = "calls the kernel as a 32-bit program does (`int 0x80`), where every call has another number"
wins = "every call, past a filter that knows only this architecture's numbers"
guard = "the seccomp filters check the architecture first, and end a process that calls through another one"
control = {}
held.int_0x80 = "SIGSYS"
held.x32 = { any = ["exit 0", "SIGSYS"] }
open.int_0x80 = "exit 0"
open.x32 = "exit 1"
# On gVisor, this instruction makes no system call at all.
[runsc]
held.int_0x80 = "exit 1"
"""
import mmap


def by_int_0x80():
    """getpid by number 20, as on i386."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("b814000000cd80c3"))
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    return 0 if function() == os.getpid() else 1


if MACHINE == 0:
    observe("int_0x80", child(by_int_0x80))
    # The filter refuses this call; Docker's profile ends the process instead.
    observe("x32", child(lambda: 0 if answer(syscall, 0x40000000 + 39) == "EPERM" else 1))
else:
    observe("int_0x80", "no such call here")
    observe("x32", "no such call here")
