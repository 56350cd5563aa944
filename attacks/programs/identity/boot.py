"""
tries = "reads the number of the machine's boot, by which systemd and others name it"
wins = "a mark by which two jobs, of two tenants, know that they are on one machine"
guard = "the file is covered"
control = {}
held.boot = ""
held.fresh = { none = [""] }
open.boot = { none = [""] }
[runsc]
held = { boot = { any = [""] }, fresh = { any = [""] } }
"""
def head(path):
    try:
        with open(path) as file:
            return file.read(200)
    except FileNotFoundError:
        return ""



observe("boot", head("/proc/sys/kernel/random/boot_id"))
# New at every read: programs may have it.
observe("fresh", head("/proc/sys/kernel/random/uuid"))
