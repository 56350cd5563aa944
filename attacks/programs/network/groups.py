"""
tries = "leaves a process that has joined a multicast group; the next job looks for it"
wins = "a channel to the next job, and its datagrams"
guard = "the process and its memberships die with the sandbox"
control = { within = ["unshare", "--net"] }
held.joined = "worked"
held.left = 0
open.left = { min = 1 }
"""
import fcntl

if CONTROL:
    fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14x", b"lo", 1))
ready, tells = os.pipe()
if os.fork() == 0:
    os.setsid()
    found = answer(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).setsockopt, 0, 35, socket.inet_aton("239.7.7.7") + socket.inet_aton("127.0.0.1"))
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found = answer(made.setsockopt, 0, 35, socket.inet_aton("239.7.7.7") + socket.inet_aton("127.0.0.1"))
    os.write(tells, found.encode())
    time.sleep(4 if CONTROL else 600)
    os._exit(0)
observe("joined", os.read(ready, 64).decode())
# --- the next job
with open("/proc/net/igmp") as file:
    observe("left", file.read().count("070707EF"))
