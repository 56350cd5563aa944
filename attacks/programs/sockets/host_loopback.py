"""
tries = "connects to a port at `127.0.0.1` that a process of the machine listens on"
wins = "the machine's local services: databases, agents, the fleet's own"
guard = "each container has its own network namespace, with a loopback of its own"
control = {}
held.tcp = "ECONNREFUSED"
open.tcp = "worked"
"""
attempt("tcp", lambda: socket.create_connection(("127.0.0.1", TARGET["port"]), 5).close())
