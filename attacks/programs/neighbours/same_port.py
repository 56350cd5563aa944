"""
tries = "binds a loopback port and an abstract name that a job in another container uses"
wins = "a neighbour that can't start its server, and the knowledge that it has one"
guard = "each container has its own network namespace"
control = {}
held.port = "worked"
held.abstract = "worked"
held.served = true
open.port = "EADDRINUSE"
open.abstract = "EADDRINUSE"
"""
attempt("port", socket.socket().bind, ("127.0.0.1", 47125))
attempt("abstract", socket.socket(socket.AF_UNIX).bind, "\0thermae-both")
# --- the neighbour
own = socket.create_server(("127.0.0.1", 47125))
name = socket.socket(socket.AF_UNIX)
name.bind("\0thermae-both")
at_gate()
observe("served", True)
