"""
tries = "joins the namespaces of pid 1, and joins its own ones again"
wins = "the way back to the namespaces that the sandbox was made from"
guard = "pid 1 is not dumpable, so its namespaces can't be opened; the seccomp filter refuses `setns` once the job is in its sandbox"
control = { within = ["unshare", "--pid", "--fork", "--mount-proc", "--uts", "sh", "-c", '"$@"; exit $?', "sh"] }
held.init_mnt = "EACCES"
held.init_user = "EACCES"
held.own_uts = "EPERM"
held.own_pidfd = "EPERM"
open.init_mnt = "worked"
open.own_uts = "worked"
[runsc]
skip = "gVisor has no files for most namespaces, and no pidfds"
"""
attempt("init_mnt", opened, "/proc/1/ns/mnt")
attempt("init_user", opened, "/proc/1/ns/user")
handle = os.open("/proc/self/ns/uts", os.O_RDONLY)
call("setns", handle, 0, told="own_uts")
call("setns", os.pidfd_open(os.getpid()), 0x04000000, told="own_pidfd")
