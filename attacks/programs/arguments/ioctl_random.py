"""
tries = "asks the machine's random number generator through `ioctl` how much entropy it holds, adds to it, empties it and reseeds it"
wins = "influence on everybody's keys; a counter that all containers see"
guard = "the seccomp filter allows `ioctl` only with the requests that programs need"
control = {}
held."*" = "EPERM"
open.count = "worked"
"""
source = os.open("/dev/urandom", os.O_RDONLY)
call("ioctl", source, 0x80045200, bytes(8), told="count")
if not CONTROL:
    for name, request in [("add_count", 0x40045201), ("add", 0x40085203), ("zap", 0x5204), ("clear", 0x5206), ("reseed", 0x5207)]:
        call("ioctl", source, request, bytes(64), told=name)
