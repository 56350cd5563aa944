"""
tries = "reads which disks and partitions the machine has, and how much is read from and written to them"
wins = "what everybody reads and writes, as it happens; sizes that identify a machine"
guard = "the files are covered by `/dev/null`"
control = {}
held."*" = ""
open.partitions = { none = [""] }
"""
def head(path):
    try:
        with open(path) as file:
            return file.read(200)
    except FileNotFoundError:
        return ""



observe("partitions", head("/proc/partitions"))
observe("statistics", head("/proc/diskstats"))
