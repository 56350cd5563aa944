"""
tries = "sends datagrams over loopback to a multicast group that a job in another container listens to"
wins = "a channel between containers, and so between tenants"
guard = "each container has its own network namespace"
control = {}
held.sent = { any = ["worked", "ENETUNREACH"] }
held.heard = false
open.heard = true
"""
def send():
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(0, 32, socket.inet_aton("127.0.0.1"))
    made.sendto(b"hello", ("239.7.7.8", 47126))


attempt("sent", send)
# --- the neighbour
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("", 47126))
own.setsockopt(0, 35, socket.inet_aton("239.7.7.8") + socket.inet_aton("127.0.0.1"))
at_gate()
own.setblocking(False)
observe("heard", answer(own.recv, 16) == "worked")
