"""
tries = "lists what file systems tell about themselves in /proc/fs and /sys/fs"
wins = "names of disks, errors, options; journals at work"
guard = "/proc/fs is covered, /sys is empty"
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
