"""
tries = "makes and closes fifty connections, and ends; the next job looks for their ports in `/proc/net`"
wins = "what the last job served and requested"
guard = "the container's network namespace keeps no closed connections; open connections died with their process"
control = { within = ["unshare", "--net"] }
held.made = 50
held.rows = 0
held.waiting = 0
open.rows = { min = 1 }
# The row is the runner's own connection, which it makes inside the container to the worker's named socket.
[docker]
held.rows = 1
"""
if CONTROL:
    import fcntl
    fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14x", b"lo", 1))
made = 0
for port in range(47300, 47350):
    listener = socket.create_server(("127.0.0.1", port))
    client = socket.create_connection(("127.0.0.1", port))
    listener.accept()[0].close()
    client.recv(1)
    client.close()
    made += 1
observe("made", made)
# --- the next job
rows = 0
for name in ("tcp", "tcp6", "udp", "udp6", "raw", "unix"):
    with open("/proc/net/" + name) as file:
        # Rows with no more than 7 columns are Unix sockets without a name, which reveal nothing.
        rows += sum(len(line.split()) > 7 for line in file.readlines()[1:])
with open("/proc/net/sockstat") as file:
    words = [line.split() for line in file if line.startswith("TCP:")][0]
observe("rows", rows)
observe("waiting", 0 if CONTROL else int(words[words.index("tw") + 1]))
