"""Finds out which pages a child writes before its program's first line, and has them copied in one go.

Python writes to an object even when it only reads it, because the object holds its own reference count. So the first
steps of a forked child are hundreds of page faults, and each copies a page. The pages hardly differ from child to
child. So one child runs ahead of all others, to find out which pages become its own. The others then ask the kernel for
just these pages, in one call and before they need them.
"""

import _socket
import ctypes
import os
import signal
import struct

PAGE = os.sysconf("SC_PAGE_SIZE")
SYS_PROCESS_MADVISE = 440
PIDFD_SELF = -10000
MADV_POPULATE_WRITE = 23
MOST_RANGES = 1024  # The kernel's UIO_MAXIOV.
RANGE = 16  # Bytes of a `struct iovec`.
PR_SET_PDEATHSIG = 1
WITHIN = 1.0  # Seconds for the child that runs ahead. The runner counts a zygote as hung after three.
# Bits of an entry of `/proc/self/pagemap`: the page is there; it is a file's or shared; no other process maps it.
PRESENT, FILE, EXCLUSIVE = 1 << 63, 1 << 61, 1 << 56


class Pages:
    """The pages that children write. Until they are learned, `populate` copies nothing and returns False, and a child
    has to touch its pages itself."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.vector = None
        self.calls = []

    def learn(self, greet, walk):
        """Fork the child that runs ahead. `greet(channel)` sends it a program, and `walk(channel)` is all that it does.

        A page is the child's own if no other process maps it. A second child keeps all pages mapped as they were.
        Otherwise a page would also seem to be the child's own if this process has written to it meanwhile.
        """
        mapped, children = writable(), []
        ours, theirs = _socket.socketpair()
        ours.settimeout(WITHIN)
        greet(ours)
        try:
            # This child must not hold the channel, so that the end of the other child shows.
            children.append(self.fork(lambda: theirs.close() or signal.pause()))
            children.append(self.fork(lambda: self.report(walk(theirs.detach()))))
            theirs.close()
            ranges = own(mapped, received_fd(ours))
        finally:
            ours.close()
            for pid in children:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        self.vector = (ctypes.c_ulong * len(ranges))(*ranges)
        first = ctypes.addressof(self.vector)
        for start in range(0, len(ranges) // 2, MOST_RANGES):
            self.calls.append((first + start * RANGE, min(len(ranges) // 2 - start, MOST_RANGES)))

    def fork(self, live):
        """Fork a child that calls `live` and then ends. It also ends with this process."""
        pid = self.kernel.check(self.kernel.syscall(self.kernel.clone, signal.SIGCHLD, 0, 0, 0, 0), "clone")
        if pid == 0:
            try:
                self.kernel.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                live()
            finally:
                os._exit(1)
        return pid

    @staticmethod
    def report(channel):
        """In the child: hand the page map over, and touch nothing afterwards."""
        pagemap = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        channel.sendmsg([b"\n"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", pagemap))])
        signal.pause()

    def populate(self):
        """Copy the pages. Returns whether that was possible: it needs Linux 6.14, and no filter that forbids it."""
        done = bool(self.calls)
        for address, count in self.calls:
            done = self.kernel.syscall(SYS_PROCESS_MADVISE, PIDFD_SELF, address, count, MADV_POPULATE_WRITE, 0) > 0 and done
        return done


def writable():
    """The private mappings that can be written to, as (start, end)."""
    found = []
    with open("/proc/self/maps") as file:
        for line in file:
            place, rights = line.split(None, 2)[:2]
            if rights.startswith("rw") and rights.endswith("p"):
                found.append(tuple(int(part, 16) for part in place.split("-")))
    return found


def received_fd(channel):
    """The first descriptor that comes. The channel's own messages come before it and are dropped."""
    while True:
        data, rights, _flags, _address = channel.recvmsg(65536, _socket.CMSG_SPACE(4))
        if rights:
            return struct.unpack("i", rights[0][2])[0]
        if not data:
            raise OSError("the child ended on its way")


def own(mapped, pagemap):
    """The ranges of pages in `mapped` that only one process maps, by its page map: start, size, start, size, ..."""
    ranges = []
    for start, end in mapped:
        told = os.pread(pagemap, (end - start) // PAGE * 8, start // PAGE * 8)
        for index, (entry,) in enumerate(struct.iter_unpack("=Q", told)):
            if entry & PRESENT and entry & EXCLUSIVE and not entry & FILE:
                at = start + index * PAGE
                if ranges and ranges[-2] + ranges[-1] == at:
                    ranges[-1] += PAGE
                else:
                    ranges += at, PAGE
    os.close(pagemap)
    return ranges
