"""
tries = "hides requests in arguments whose upper 32 bits are set, which the kernel ignores and a filter may not"
wins = "calls that the filter takes for other calls (CVE-2019-7303)"
guard = "the seccomp filter compares only the bits that the kernel looks at"
control = {}
held.tiocsti = "EPERM"
held.netlink = "EPERM"
held.prctl = "EPERM"
held.personality = "EPERM"
held.clone = "EPERM"
open.tiocsti = { none = ["EPERM"] }
open.netlink = "worked"
open.prctl = "worked"
open.personality = "worked"
"""
HIGH = 1 << 32
call("ioctl", 0, 0x5412 + HIGH, b"x", told="tiocsti")
call("socket", 16 + HIGH, 3, 0, told="netlink")
call("prctl", 8 + HIGH, 1, 0, 0, 0, told="prctl")
call("personality", 0x0040000 + HIGH, told="personality")


def clone():
    if syscall("clone", 0x10000000 + (HIGH << 4) | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


attempt("clone", clone)
