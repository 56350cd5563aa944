"""
tries = "connects to an abstract socket and a loopback port that a job in another container listens on"
wins = "another job's data, which may be another tenant's"
guard = "each container has its own network namespace"
control = {}
held.abstract = "ECONNREFUSED"
held.port = "ECONNREFUSED"
held.listening = true
open.abstract = "worked"
open.port = "worked"
"""
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\0thermae-neighbour"))
attempt("port", lambda: socket.create_connection(("127.0.0.1", 47124), 5).close())
# --- the neighbour
first = socket.socket(socket.AF_UNIX)
first.bind("\0thermae-neighbour")
first.listen()
second = socket.socket()
second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
second.bind(("127.0.0.1", 47124))
second.listen()
at_gate()
observe("listening", True)
