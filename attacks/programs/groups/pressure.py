"""
tries = "sets triggers on the kernel's pressure files, and asks sysrq for a crash"
wins = "kernel threads that work for it; the machine's end"
guard = "/proc/pressure is an empty folder, /proc/sysrq-trigger is /dev/null"
control = {}
held.memory = "ENOENT"
held.cpu = "ENOENT"
# Where the kernel has it at all.
held.sysrq = { any = [[1, 3], []] }
open.memory = "worked"
"""
attempt("memory", opened, "/proc/pressure/memory", os.O_RDWR)
attempt("cpu", opened, "/proc/pressure/cpu", os.O_RDWR)
sysrq = "/proc/sysrq-trigger"
device = os.stat(sysrq).st_rdev if os.path.exists(sysrq) else None
observe("sysrq", [] if device is None else [os.major(device), os.minor(device)])
