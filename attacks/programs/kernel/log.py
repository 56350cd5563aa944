"""
tries = "reads the kernel's log with `syslog`, `/proc/kmsg` and `/dev/kmsg`"
wins = "addresses, and what others do"
guard = "the seccomp filter refuses `syslog`; `/proc/kmsg` is covered, and `/dev/kmsg` is missing"
control = {}
held.syslog = "EPERM"
held.kmsg = ""
held.device = "ENOENT"
open.syslog = "worked"
open.device = "worked"
[runsc]
held.kmsg = "absent"
"""
call("syslog", 10, None, 0)
attempt("device", opened, "/dev/kmsg")
try:
    handle = os.open("/proc/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    observe("kmsg", os.read(handle, 100).decode() if not CONTROL else "-")
except FileNotFoundError:
    observe("kmsg", "absent")
