"""
tries = "connects to an abstract Unix socket that a process of the machine listens on"
wins = "services of the machine that have no file; containerd once was one (CVE-2020-15257)"
guard = "each container has its own network namespace, in which the kernel looks up abstract names"
control = {}
held.connect = "ECONNREFUSED"
open.connect = "worked"
"""
attempt("connect", lambda: socket.socket(socket.AF_UNIX).connect("\0" + TARGET["abstract_socket"]))
