"""
tries = "leaves a process that listens with `SO_REUSEPORT`; the next job listens on the same port in the same way"
wins = "half of the next job's connections"
guard = "the process dies with its sandbox; the next job starts only when every process is dead"
control = {}
held.listens = "worked"
held.stolen = 0
open.stolen = { min = 1 }
"""
ready, tells = os.pipe()
if os.fork() == 0:
    os.setsid()
    left = socket.socket()
    left.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    left.bind(("127.0.0.1", 47203))
    left.listen(64)
    os.write(tells, b"x")
    time.sleep(4 if CONTROL else 600)
    os._exit(0)
attempt("listens", os.read, ready, 1)
# --- the next job
own = socket.socket()
own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
own.bind(("127.0.0.1", 47203))
own.listen(64)
clients = [socket.create_connection(("127.0.0.1", 47203)) for _ in range(40)]
own.setblocking(False)
mine = 0
while mine < 40 and answer(own.accept) == "worked":
    mine += 1
observe("stolen", 40 - mine)
