"""
tries = "lists what file systems show about themselves in `/proc/fs`, `/sys/fs` and `/sys/block`"
wins = "names of disks, errors, options; the work of journals"
guard = "`/proc/fs` is covered, and `/sys` is empty"
control = {}
held.proc = []
held.sys = []
held.block = []
open.sys = { none = [[]] }
"""
def names(path):
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []


observe("proc", names("/proc/fs"))
observe("sys", names("/sys/fs"))
observe("block", names("/sys/block"))
