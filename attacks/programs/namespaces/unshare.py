"""
tries = "enters new user, mount, pid, network, ipc, uts and cgroup namespaces with `unshare`"
wins = "the power over a namespace of its own: mounts, and the kernel code behind them"
guard = "the seccomp filter refuses `unshare`"
control = {}
held."*" = "EPERM"
open."*" = "worked"
"""
for name, flag in [("mount", 0x20000), ("pid", 0x20000000), ("net", 0x40000000), ("ipc", 0x08000000)]:
    call("unshare", flag, told=name)
for name, flag in [("uts", 0x04000000), ("cgroup", 0x02000000), ("user", 0x10000000)]:
    call("unshare", flag, told=name)
