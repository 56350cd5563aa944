"""
tries = "forks a child into new namespaces with the old `clone`, with each flag alone and with all at once"
wins = "the power over a namespace of its own: mounts, and the kernel code behind them"
guard = "the seccomp filter allows `clone` only without the flags for namespaces"
control = {}
held."*" = "EPERM"
open."*" = "worked"
"""


def clone(flags):
    pid = syscall("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


for name, flag in [("user", 0x10000000), ("mount", 0x20000), ("pid", 0x20000000), ("net", 0x40000000)]:
    attempt(name, clone, flag)
for name, flag in [("ipc", 0x08000000), ("uts", 0x04000000), ("cgroup", 0x02000000), ("all", 0x7E020000)]:
    attempt(name, clone, flag)
