"""
tries = "leaves a process that sends datagrams to a port that nobody has yet; the next job binds that port"
wins = "bytes of the last job in the next job's server"
guard = "the process dies with its sandbox; the kernel keeps no datagrams for a port that nobody has"
control = {}
held.sending = "worked"
held.received = "EAGAIN"
open.received = "worked"
"""
ready, tells = os.pipe()
if os.fork() == 0:
    os.setsid()
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    os.write(tells, b"x")
    until = time.monotonic() + (4 if CONTROL else 600)
    while time.monotonic() < until:
        answer(sender.sendto, b"left", ("127.0.0.1", 47205))
        time.sleep(0.01)
    os._exit(0)
attempt("sending", os.read, ready, 1)
# --- the next job
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("127.0.0.1", 47205))
own.setblocking(False)
time.sleep(0.1)
attempt("received", own.recv, 16)
