"""
tries = "leaves connections that nobody accepted, with data that nobody read; the next job takes their port"
wins = "data that was meant for the last server, in the next one"
guard = "sockets die with their process, and the kernel throws unread data away"
control = {}
held.sent = "worked"
held.bound = "worked"
held.waiting = "EAGAIN"
open.bound = "EADDRINUSE"
"""
code = "import socket,time; s=socket.create_server(('127.0.0.1',47202)); c=[socket.create_connection(('127.0.0.1',47202)) for _ in range(5)]; [x.send(b'left') for x in c]; print(flush=True); time.sleep(%d)"
import subprocess

left = subprocess.Popen([sys.executable, "-I", "-c", code % (4 if CONTROL else 600)], stdout=subprocess.PIPE, start_new_session=True)
attempt("sent", left.stdout.readline)
# --- the next job
listener = socket.socket()
listener.setblocking(False)
attempt("bound", listener.bind, ("127.0.0.1", 47202))
if not CONTROL:
    listener.listen()
    attempt("waiting", listener.accept)
else:
    observe("waiting", "")
