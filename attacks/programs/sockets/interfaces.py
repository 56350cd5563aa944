"""
tries = "lists network interfaces, changes loopback's address, takes loopback down, and adds a route"
wins = "another network than it was given"
guard = "the seccomp filter allows `ioctl` only with the requests that programs need; the job has no capability in the network namespace"
control = { within = ["unshare", "--net"] }
held.interfaces = ["lo"]
held.address = "EPERM"
held.down = "EPERM"
held.route = "EPERM"
open.address = "worked"
open.down = "worked"
"""
import fcntl

made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
observe("interfaces", [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line])
address = struct.pack("16sHH4s8x", b"lo", socket.AF_INET, 0, socket.inet_aton("127.0.0.9"))
attempt("address", fcntl.ioctl, made, 0x8916, address)
attempt("down", fcntl.ioctl, made, 0x8914, struct.pack("16sH14x", b"lo", 0))
attempt("route", fcntl.ioctl, made, 0x890B, bytes(120))
