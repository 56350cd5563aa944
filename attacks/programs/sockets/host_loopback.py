"""
tries = "connects to a port that a process of the machine listens on at 127.0.0.1"
wins = "the machine's local services: databases, agents, the fleet's own"
guard = "a network namespace of its own: its loopback is another one"
control = {}
held.tcp = "ECONNREFUSED"
open.tcp = "worked"
"""
attempt("tcp", lambda: socket.create_connection(("127.0.0.1", TARGET["port"]), 5).close())
