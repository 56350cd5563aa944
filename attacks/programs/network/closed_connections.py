"""
tries = "closes a connection from the server's side and ends; the next job binds the same port without any option"
wins = "a next job that can't start its server for a minute (`TIME_WAIT`)"
guard = "the container's network namespace keeps no closed connections"
control = {}
held.served = "worked"
held.bound = "worked"
open.bound = "EADDRINUSE"
[runsc]
skip = "it needs several jobs in one container, and on gVisor each job has its own"
"""
listener = socket.create_server(("127.0.0.1", 47201))
client = socket.create_connection(("127.0.0.1", 47201))
server = listener.accept()[0]
server.close()
client.recv(1)
attempt("served", client.close)
listener.close()
# --- the next job
attempt("bound", socket.socket().bind, ("127.0.0.1", 47201))
