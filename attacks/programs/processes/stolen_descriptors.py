"""
tries = "takes descriptors out of pid 1 and out of its own child with `pidfd_getfd`"
wins = "an open file or socket from outside the sandbox"
guard = "the seccomp filter refuses `pidfd_getfd`"
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
