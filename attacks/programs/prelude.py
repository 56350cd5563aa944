# Put before every attack: helpers that ask the kernel for something, and that record its answer.
import ctypes
import errno
import json
import os
import platform
import signal
import socket
import struct
import sys
import time

# The attack's targets (src/targets.rs). In a control, also the file to report to.
TARGET = json.loads(os.environ.pop("ATTACK", "{}"))
CONTROL = "report" in TARGET
# A folder in which the attack may make files.
PLACE = TARGET["folder"] if CONTROL else TARGET.get("place")
# Whether this is a plain interpreter, which a program in bash has started.
ALONE = not CONTROL and not hasattr(__builtins__, "display")
REPORT = open(TARGET["report"], "a") if CONTROL else None
EVIDENCE = {"container": "%s %s" % (os.readlink("/proc/self/ns/net"), os.stat("/").st_dev)}

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

# System calls by name, on x86_64 and aarch64; None where an architecture never had it.
CALLS = {
    "_sysctl": (156, None),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "arch_prctl": (158, None),
    "bpf": (321, 280),
    "cachestat": (451, 451),
    "capget": (125, 90),
    "capset": (126, 91),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_gettime": (228, 113),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "close_range": (436, 436),
    "delete_module": (176, 106),
    "exit": (60, 93),
    "fadvise64": (221, 223),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "fcntl": (72, 25),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "get_robust_list": (274, 100),
    "getpid": (39, 172),
    "getsid": (124, 156),
    "getsockopt": (55, 209),
    "gettid": (186, 178),
    "init_module": (175, 105),
    "inotify_add_watch": (254, 27),
    "inotify_init1": (294, 26),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "kill": (62, 129),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "listmount": (458, 458),
    "lookup_dcookie": (212, 18),
    "lsm_get_self_attr": (459, 459),
    "madvise": (28, 233),
    "map_shadow_stack": (453, 453),
    "mbind": (237, 235),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mincore": (27, 232),
    "mlock": (149, 228),
    "mmap": (9, 222),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mseal": (462, 462),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "preadv2": (327, 286),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "pwritev2": (328, 287),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "remap_file_pages": (216, 234),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "sched_getscheduler": (145, 120),
    "sched_setattr": (314, 274),
    "sched_setscheduler": (144, 119),
    "seccomp": (317, 277),
    "semctl": (66, 191),
    "semget": (64, 190),
    "sendto": (44, 206),
    "set_mempolicy": (238, 237),
    "setdomainname": (171, 162),
    "setfsuid": (122, 151),
    "setgroups": (116, 159),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setresuid": (117, 147),
    "setrlimit": (160, 164),
    "setsockopt": (54, 208),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "socket": (41, 198),
    "splice": (275, 76),
    "statmount": (457, 457),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sync": (162, 81),
    "syncfs": (306, 267),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "timer_create": (222, 107),
    "timerfd_create": (283, 85),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
    "vmsplice": (278, 75),
}
MACHINE = ("x86_64", "aarch64").index(platform.machine())


def observe(name, value):
    """Record an observation."""
    EVIDENCE[name] = value


def answer(action, *args):
    """Do something; `worked`, or the name of the error that it raised."""
    try:
        action(*args)
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    return "worked"


def attempt(name, action, *args):
    """Do something and record how it went."""
    observe(name, answer(action, *args))


def syscall(name, *args):
    """A raw system call; arguments are numbers, bytes, buffers or None."""
    number = CALLS[name][MACHINE] if isinstance(name, str) else name
    ctypes.set_errno(0)
    words = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def call(name, *args, told=None):
    """Make a raw system call and record the answer."""
    if CALLS[name][MACHINE] is None:
        return observe(told or name, "no such call here")
    attempt(told or name, syscall, name, *args)


def opened(path, flags=os.O_RDONLY):
    """Open a file and close it again."""
    os.close(os.open(path, flags))


def child(action):
    """Do something in a forked child; how the child ended: `exit N`, or the signal's name."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = action() or 0
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "exit %d" % os.WEXITSTATUS(status)


class Verdict:
    """The job's value: everything that was observed."""

    def __repr__(self):
        return "evidence"

    def _repr_json_(self):
        return dict(EVIDENCE)


def verdict():
    """Put after every attack: hand over the evidence."""
    if CONTROL:
        REPORT.write(json.dumps(EVIDENCE) + "\n")
        REPORT.flush()
    elif ALONE:
        tell()
    return Verdict()


def tell():
    """Hand over the evidence now, in a job that will not reach its end."""
    if ALONE:
        os.write(1, b"\nEVIDENCE %s\n" % json.dumps(EVIDENCE).encode())
    elif not CONTROL:
        display({"application/json": dict(EVIDENCE)}, raw=True)


def at_gate():
    """In a neighbour: say that everything is set up, and wait until the attack is over."""
    if CONTROL:
        print("ready", flush=True)
        sys.stdin.readline()
    else:
        gate.sync()


def channel():
    """The job's own socket to the runner."""
    return socket.socket(fileno=os.dup(200))


def frame(message):
    """A frame as the runner reads it, from a dict or from the bytes of its body."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack("<I", len(body)) + body
