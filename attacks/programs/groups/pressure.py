"""
tries = "opens the kernel's pressure files to set triggers, and looks for `/proc/sysrq-trigger`, which can crash the machine"
wins = "kernel threads that work for the job; the end of the machine"
guard = "`/proc/pressure` is an empty folder, and `/proc/sysrq-trigger` is `/dev/null`"
control = {}
held.memory = "ENOENT"
held.cpu = "ENOENT"
# Not every kernel has the file.
held.sysrq = { any = [[1, 3], []] }
open.memory = "worked"
"""
attempt("memory", opened, "/proc/pressure/memory", os.O_RDWR)
attempt("cpu", opened, "/proc/pressure/cpu", os.O_RDWR)
sysrq = "/proc/sysrq-trigger"
device = os.stat(sysrq).st_rdev if os.path.exists(sysrq) else None
observe("sysrq", [] if device is None else [os.major(device), os.minor(device)])
