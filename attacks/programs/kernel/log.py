"""
tries = "reads, clears and silences the kernel's log by syslog, /proc/kmsg and /dev/kmsg"
wins = "addresses, other people's doings"
guard = "seccomp: syslog is not in the table; /proc/kmsg is covered, /dev/kmsg is not there"
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
