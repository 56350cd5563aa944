"""
tries = "connects to itself over loopback a few hundred times, and sends without reading"
wins = "kernel memory, past every limit on a process"
guard = "a limit on descriptors; the kernel's bound on a connection's buffers; the control group, which counts them"
uncontrolled = "it would use up the machine's memory"
aftermath = true
limits = { wall_ms = 8000 }
held.refused = "EMFILE"
held.connections = { max = 512 }
"""
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(1000)
kept, connections = [], 0
try:
    while True:
        made = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
        kept += [made, other]
        made.setblocking(False)
        made.send(b"x" * 262144)
        connections += 1
except OSError as error:
    observe("refused", errno.errorcode[error.errno])
observe("connections", connections)
