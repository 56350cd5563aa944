"""
tries = "reads which disks and partitions the machine has and what is done on them, arrays and swap included"
wins = "what everybody reads and writes, as it happens; sizes that name a machine"
guard = "the files are covered"
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
