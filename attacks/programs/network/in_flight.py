"""
tries = "leaves a listening socket in flight, in the queue of a Unix socket that is in its own queue and that no process holds; the next job looks for it for a second"
wins = "a port that the next job can't bind; a listener that outlives its job"
guard = "the kernel collects such circles, milliseconds after the process that left them is dead"
uncontrolled = "the kernel collects such circles with or without a sandbox"
held.sent = "worked"
held.connected = "ECONNREFUSED"
"""
import array

listener = socket.create_server(("127.0.0.1", 47204))
one, other = socket.socketpair()
rights = array.array("i", [one.fileno(), other.fileno(), listener.fileno()])
attempt("sent", one.sendmsg, [b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
# --- the next job
end = time.monotonic() + 1
while answer(socket.create_connection, ("127.0.0.1", 47204), 1) != "ECONNREFUSED" and time.monotonic() < end:
    time.sleep(0.01)
attempt("connected", socket.create_connection, ("127.0.0.1", 47204), 1)
