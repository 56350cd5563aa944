"""
tries = "fills pipes and socket pairs with data that nobody reads, until it has no descriptor left"
wins = "kernel memory, past every limit on a process"
guard = "a limit on descriptors; the kernel's limit on a user's pipes; the container's control group, which counts the rest"
uncontrolled = "it would use up the machine's memory"
aftermath = true
limits = { wall_ms = 8000 }
held.descriptors = { max = 1024 }
held.refused = "EMFILE"
"""
chunk, handles, total = b"x" * 65536, [], 0
try:
    while True:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        first, second = socket.socketpair()
        first.setblocking(False)
        handles += [reader, writer, first, second]
        for write in (lambda: os.write(writer, chunk), lambda: first.send(chunk)):
            try:
                total += write()
            except BlockingIOError:
                pass
except OSError as error:
    observe("refused", errno.errorcode[error.errno])
observe("descriptors", len(handles) + 4)
