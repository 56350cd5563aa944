"""
tries = "takes descriptors out of another process by pidfd_getfd: pid 1's and its own child's"
wins = "an open file or socket from behind the wall"
guard = "seccomp: pidfd_getfd is not in the table"
control = {}
held."*" = "EPERM"
open.child = "worked"
[runsc]
skip = "gVisor has no pidfds"
"""
pid = os.fork()
if pid == 0:
    signal.pause()
if not CONTROL:
    call("pidfd_getfd", os.pidfd_open(1), 0, 0, told="init")
call("pidfd_getfd", os.pidfd_open(pid), 0, 0, told="child")
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
