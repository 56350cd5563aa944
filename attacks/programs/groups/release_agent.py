"""
tries = "mounts a cgroup hierarchy to set its `release_agent` (CVE-2022-0492)"
wins = "a program that the machine's root runs"
guard = "the seccomp filter refuses mounts and new namespaces; `/sys` is empty"
control = { within = ["unshare", "--mount"] }
held.mount_v1 = "EPERM"
held.mount_v2 = "EPERM"
held.unshare = "EPERM"
held.release_agent = "ENOENT"
held.sys = []
open.mount_v2 = "worked"
"""
here = PLACE + "/group"
os.makedirs(here, exist_ok=True)
call("mount", b"cgroup", here.encode(), b"cgroup", 0, b"rdma", told="mount_v1")
call("mount", b"cgroup", here.encode(), b"cgroup2", 0, None, told="mount_v2")
call("unshare", 0x12000000, told="unshare")
attempt("release_agent", opened, "/sys/fs/cgroup/release_agent", os.O_WRONLY)
observe("sys", os.listdir("/sys"))
