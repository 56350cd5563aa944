"""
tries = "connects to addresses outside: a documentation address, the clouds' metadata service, a name server, Docker's gateway"
wins = "data out, commands in; the machine's cloud credentials"
guard = "the network namespace has loopback only, and so no route"
uncontrolled = "what the machine can reach is up to the machine"
held."*" = "ENETUNREACH"
held.udp = "ENETUNREACH"
held.name_servers = 0
[runsc]
held = { "*" = "EHOSTUNREACH", udp = "EHOSTUNREACH", multicast = "ENETUNREACH" }
"""


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as made:
        made.settimeout(5)
        made.connect(address)


attempt("documentation", connect, socket.AF_INET, ("192.0.2.1", 80))
attempt("metadata", connect, socket.AF_INET, ("169.254.169.254", 80))
attempt("metadata_v6", connect, socket.AF_INET6, ("fd00:ec2::254", 80))
attempt("gateway", connect, socket.AF_INET, ("172.17.0.1", 2375))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("8.8.8.8", 53)))
attempt("multicast", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("224.0.0.1", 5353)))
names = open("/etc/resolv.conf").read() if os.path.exists("/etc/resolv.conf") else ""
observe("name_servers", names.count("nameserver"))
