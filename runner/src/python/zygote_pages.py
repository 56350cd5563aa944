"""Which pages a child writes on the way to its program's first line, and having them copied in one go.

Python writes wherever it looks: reference counts lie beside what they count. So the first steps of a forked child are hundreds
of page faults with a page to copy in each. They hardly differ from child to child: one child goes the way ahead of all others
and tells which pages became its own; the others then ask the kernel for just those, in one call and before they need them.
"""

import array
import ctypes
import os
import signal
import socket
import struct

PAGE = os.sysconf("SC_PAGE_SIZE")
SYS_PROCESS_MADVISE = 440
PIDFD_SELF = -10000
MADV_POPULATE_WRITE = 23
MOST_RANGES = 1024  # The kernel's UIO_MAXIOV.
RANGE = 16  # Bytes of a `struct iovec`.
MARK = b"\npages\n"  # Before it come the channel's own messages, which are JSON.
# Bits of an entry of `/proc/self/pagemap`: the page is there; it is a file's or shared; nobody else maps it.
PRESENT, FILE, EXCLUSIVE = 1 << 63, 1 << 61, 1 << 56


class Pages:
    """Knows nothing until it has learned; `populate` is then false, and a child has to touch its pages itself."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.vector = None
        self.calls = []

    def learn(self, walk):
        """Send a child down the way: `walk(channel)` is all that children do, and returns the channel's socket."""
        mapped = writable()
        ours, theirs = socket.socketpair()
        pid = self.kernel.syscall(self.kernel.clone, signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            try:
                answer = walk(theirs.detach())
                answer.sendall(MARK + b"".join(struct.pack("=QQ", start, size) for start, size in own(mapped)))
            finally:
                os._exit(0)
        theirs.close()
        with ours.makefile("rb") as stream:
            told = array.array("L", stream.read().partition(MARK)[2])
        ours.close()
        if pid > 0:
            os.waitpid(pid, 0)
        self.vector = (ctypes.c_ulong * len(told))(*told)
        first = ctypes.addressof(self.vector)
        for start in range(0, len(told) // 2, MOST_RANGES):
            self.calls.append((first + start * RANGE, min(len(told) // 2 - start, MOST_RANGES)))

    def populate(self):
        """Copy them; whether that was possible (Linux 6.14, and no filter that forbids it)."""
        done = bool(self.calls)
        for address, count in self.calls:
            done = self.kernel.syscall(SYS_PROCESS_MADVISE, PIDFD_SELF, address, count, MADV_POPULATE_WRITE, 0) > 0 and done
        return done


def writable():
    """The private mappings that can be written: start, end."""
    found = []
    with open("/proc/self/maps") as file:
        for line in file:
            place, rights = line.split(None, 2)[:2]
            if rights.startswith("rw") and rights.endswith("p"):
                found.append(tuple(int(part, 16) for part in place.split("-")))
    return found


def own(mapped):
    """The runs of pages there that are this process's alone: start, size."""
    found = []
    pagemap = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    for start, end in mapped:
        entries = os.pread(pagemap, (end - start) // PAGE * 8, start // PAGE * 8)
        for index, (entry,) in enumerate(struct.iter_unpack("=Q", entries)):
            if entry & PRESENT and entry & EXCLUSIVE and not entry & FILE:
                at = start + index * PAGE
                if found and sum(found[-1]) == at:
                    found[-1] = found[-1][0], found[-1][1] + PAGE
                else:
                    found.append((at, PAGE))
    return found
