"""
tries = "looks for other processes in `/proc`, and by signal 0 to every pid up to 40,000"
wins = "processes of the runner, the zygotes, other sandboxes or the machine"
guard = "each sandbox has its own pid namespace: pid 1 is its init, pid 2 is the job"
slow = true
control = {}
held.listed = ["1", "2"]
held.reached = [1, 2]
held.outside = "ESRCH"
held.pidfd_outside = "ESRCH"
open.listed = { none = [["1", "2"]] }
open.outside = "worked"
open.pidfd_outside = "worked"
[runsc]
skip = "without an inner wall, the runner and its zygotes can be seen; the container has no other job's processes"
"""


def reaches(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


observe("listed", sorted(name for name in os.listdir("/proc") if name.isdigit()))
observe("reached", [pid for pid in range(1, 40000) if reaches(pid)])
attempt("outside", os.kill, TARGET["pid"] if TARGET["pid"] > 2 else 99999, 0)
attempt("pidfd_outside", os.pidfd_open, TARGET["pid"] if TARGET["pid"] > 2 else 99999)
