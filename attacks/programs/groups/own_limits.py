"""
tries = "looks for the files of its control group, to raise its memory and process limits or to move itself to another group"
wins = "as much of the machine as there is"
guard = "`/sys` is covered; a cgroup namespace hides the paths"
control = {}
held.limits = []
held.own_path = "/"
open.limits = { none = [[]] }
# gVisor has groups of its own, one for each controller.
[runsc]
held.own_path = "several"
"""
found = []
for place, _, files in os.walk("/sys/fs/cgroup"):
    found += [name for name in files if name in ("cgroup.procs", "memory.max", "memory.limit_in_bytes", "pids.max")]
    if found:
        break
observe("limits", sorted(set(found)))
paths = {line.strip().split(":", 2)[2] for line in open("/proc/self/cgroup")}
observe("own_path", paths.pop() if len(paths) == 1 else "several")
