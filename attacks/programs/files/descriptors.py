"""
tries = "looks for descriptors that the runner or the zygote left open, and for what they lead to"
wins = "a socket of the runner, a folder outside the sandbox"
guard = "all descriptors are closed except the standard three and the job's own channel, at 200"
control = { within = ["sh", "-c", 'exec 7</etc/hostname 8</ 9</proc; exec "$@"', "sh"] }
held.open = [[0, "/dev/null"], [1, "pipe"], [2, "pipe"], [200, "socket"]]
held.folders = 0
open.folders = { min = 2 }
# 9 is where this program is read from.
[bash]
held.open = [[0, "/dev/null"], [1, "pipe"], [2, "pipe"], [9, "pipe"]]
"""
import stat

found, folders = [], 0
for name in range(4096):
    try:
        found.append([name, os.readlink("/proc/self/fd/%d" % name).split(":")[0]])
        folders += stat.S_ISDIR(os.fstat(name).st_mode)
    except OSError:
        pass
observe("open", found)
observe("folders", folders)
