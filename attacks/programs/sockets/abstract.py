"""
tries = "connects to an abstract Unix socket that a process of the machine listens on"
wins = "the machine's services that have no file: containerd once had one (CVE-2020-15257)"
guard = "a network namespace of its own: abstract names are looked up in it"
control = {}
held.connect = "ECONNREFUSED"
open.connect = "worked"
"""
attempt("connect", lambda: socket.socket(socket.AF_UNIX).connect("\0" + TARGET["abstract_socket"]))
