"""
tries = "sets socket options that need a capability (marks, forced buffers, transparency), and asks netfilter for its rules"
wins = "kernel memory beyond its share; firewall rules"
guard = "the seccomp filter allows `setsockopt` only with the options that programs need; the job has no capability in the network namespace"
control = {}
held.mark = "EPERM"
held.force_receive = "EPERM"
held.force_send = "EPERM"
held.transparent = "EPERM"
held.iptables = "EPERM"
open.mark = "worked"
open.force_receive = "worked"
open.transparent = "worked"
"""
made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
attempt("mark", made.setsockopt, socket.SOL_SOCKET, 36, 1)
attempt("force_receive", made.setsockopt, socket.SOL_SOCKET, 33, 1 << 20)
attempt("force_send", made.setsockopt, socket.SOL_SOCKET, 32, 1 << 20)
attempt("transparent", made.setsockopt, socket.SOL_IP, 19, 1)
attempt("iptables", made.getsockopt, socket.SOL_IP, 64, 84)
