"""
tries = "changes settings of the network namespace that it shares with the next job: ports, buffers, closed connections, forwarding"
wins = "a next job without ports, or one whose packets go elsewhere"
guard = "`/proc` is read-only; the job has no capability in the network namespace"
control = { within = ["unshare", "--net"] }
held."*" = { any = ["EROFS", "EACCES", "EPERM"] }
open.ports = "worked"
open.closed = "worked"
[runsc]
held."*" = { any = ["EROFS", "EACCES", "EPERM", "ENOENT", "worked"] }
"""
for name, path in {
    "ports": "ip_local_port_range",
    "reserved": "ip_local_reserved_ports",
    "closed": "tcp_max_tw_buckets",
    "buffers": "tcp_rmem",
    "forward": "ip_forward",
    "ping": "ping_group_range",
    "low_ports": "ip_unprivileged_port_start",
}.items():
    attempt(name, opened, "/proc/sys/net/ipv4/" + path, os.O_WRONLY)
