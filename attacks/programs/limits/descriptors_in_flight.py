"""
tries = "sends descriptors to itself and leaves them in the socket, where the kernel counts them for the user, who is also the runner's"
wins = "a runner that can't hand descriptors to its zygotes, and so can't make sandboxes"
guard = "the kernel bounds descriptors in flight by the sender's own rlimit, and frees them with the sandbox"
uncontrolled = "it would use up the user's share of the machine"
aftermath = true
held.refused = "ETOOMANYREFS"
held.in_flight = { min = 500, max = 5000 }
# On gVisor, the container's memory is the bound, and gVisor's kernel counts as a part of it.
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
