"""
tries = "leaves a process that listens on an abstract socket and on a loopback port, because a container's sandboxes share its network namespace"
wins = "a channel to the next job, and its connections"
guard = "the process and its sockets die with the sandbox; the next job starts only when every process is dead"
control = {}
held.listens = "worked"
held.abstract = "ECONNREFUSED"
held.port = "ECONNREFUSED"
held.rebound = "worked"
open.abstract = "worked"
open.port = "worked"
"""
ready, tells = os.pipe()
if os.fork() == 0:
    os.setsid()
    first = socket.socket(socket.AF_UNIX)
    first.bind("\0thermae-left")
    first.listen()
    second = socket.socket()
    second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    second.bind(("127.0.0.1", 47123))
    second.listen()
    os.write(tells, b"x")
    time.sleep(4 if CONTROL else 600)
    os._exit(0)
os.read(ready, 1)
attempt("listens", lambda: socket.create_connection(("127.0.0.1", 47123)).close())
# --- the next job
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\0thermae-left"))
attempt("port", lambda: socket.create_connection(("127.0.0.1", 47123)).close())
if not CONTROL:
    again = socket.socket()
    again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    attempt("rebound", again.bind, ("127.0.0.1", 47123))
