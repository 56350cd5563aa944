"""
tries = "becomes root with every call that sets a user or group"
wins = "root in the sandbox's namespace, and root's files"
guard = "the kernel maps only the job's own user, and the job has no capability"
control = {}
held."*" = { any = ["EPERM", "EINVAL"] }
held.setgroups = "EPERM"
held.ids = [1000, 1000, 1000, 1000, 1000, 1000]
open.setresuid = "worked"
open.setuid = "worked"
open.setgroups = "worked"
# On gVisor, these are the ids of the container's user.
[runsc]
held.ids = { none = [[0, 0, 0, 0, 0, 0]] }
"""
attempt("setgroups", os.setgroups, [0])
attempt("setgid", os.setgid, 0)
attempt("setresgid", os.setresgid, 0, 0, 0)
attempt("setuid", os.setuid, 0)
attempt("seteuid", os.seteuid, 0)
attempt("setresuid", os.setresuid, 0, 0, 0)
attempt("setresuid_container", os.setresuid, 65534, 65534, 65534)
observe("ids", list(os.getresuid() + os.getresgid()))
