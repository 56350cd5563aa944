"""
tries = "takes IPv6 flow labels for itself alone, for hours; the kernel keeps them after the socket is closed"
wins = "labels that the next job can't have; marks that tell about the last job"
guard = "the seccomp filter refuses this option"
control = { within = ["unshare", "--net"] }
held.taken = "EPERM"
held.rows = 0
open.taken = "worked"
open.rows = { min = 1 }
"""
made = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
wish = socket.inet_pton(socket.AF_INET6, "::1") + struct.pack(">I", 0x12345) + struct.pack("BBHHHI", 0, 1, 1, 3600, 3600, 0)
attempt("taken", made.setsockopt, socket.IPPROTO_IPV6, 32, wish)
# --- the next job
try:
    with open("/proc/net/ip6_flowlabel") as file:
        observe("rows", len(file.readlines()) - 1)
except FileNotFoundError:
    observe("rows", 0)
