"""
tries = "reads the id of the machine's boot, by which systemd and others name that boot"
wins = "a mark by which two jobs of two tenants learn that they share a machine"
guard = "the file is covered by `/dev/null`"
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
# This number is new at every read, so programs may have it.
observe("fresh", head("/proc/sys/kernel/random/uuid"))
