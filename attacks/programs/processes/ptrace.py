"""
tries = "traces pid 1 and its own child, and asks to be traced"
wins = "the memory and registers of a process outside the sandbox; kernel code with a history of vulnerabilities"
guard = "the seccomp filter refuses `ptrace`"
control = {}
held."*" = "EPERM"
open.seize_child = "worked"
open.traceme = "worked"
"""
SEIZE, TRACEME = 0x4206, 0
pid = os.fork()
if pid == 0:
    signal.pause()
if not CONTROL:
    call("ptrace", SEIZE, 1, 0, 0, told="seize_init")
call("ptrace", SEIZE, pid, 0, 0, told="seize_child")
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
call("ptrace", TRACEME, 0, 0, 0, told="traceme")
