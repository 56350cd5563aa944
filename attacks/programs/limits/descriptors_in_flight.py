"""
tries = "sends descriptors to itself and leaves them in the socket: the kernel counts them for the user, who is the runner's, too"
wins = "a runner that can't hand descriptors to its zygotes, and so can't make sandboxes"
guard = "the kernel bounds what is in flight by the sender's own rlimit; it is given back with the sandbox"
uncontrolled = "it would take the user's share of the machine"
aftermath = true
held.refused = "ETOOMANYREFS"
held.in_flight = { min = 500, max = 5000 }
# Bounded by the container's memory, of which gVisor's kernel is a part.
[runsc]
instead = { in_flight = { min = 500 } }
"""
null = os.open("/dev/null", os.O_RDONLY)
pairs, in_flight = [], 0
try:
    while in_flight < 100000:
        pairs.append(socket.socketpair())
        for _ in range(20):
            pairs[-1][0].setblocking(False)
            socket.send_fds(pairs[-1][0], [b"x"], [null] * 50)
            in_flight += 50
except OSError as error:
    observe("refused", errno.errorcode[error.errno])
observe("in_flight", in_flight)
time.sleep(0.2)
