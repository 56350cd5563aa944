"""
tries = "asks for the session, scheduling class, limits and CPU clock of every pid up to 20,000"
wins = "what else runs there, and how busy it is: the runner, the zygotes, other sandboxes"
guard = "each sandbox has its own pid namespace"
control = {}
held.session = []
held.class = []
held.limits = []
held.clock = []
open.session = { none = [[]] }
open.clock = { none = [[]] }
[runsc]
skip = "without an inner wall, the runner and its zygotes can be seen; the container has no other job's processes"
"""
room = ctypes.create_string_buffer(16)
own = {1, os.getpid(), os.getppid()}
QUESTIONS = {
    "session": lambda pid: syscall("getsid", pid),
    "class": lambda pid: syscall("sched_getscheduler", pid),
    "limits": lambda pid: syscall("prlimit64", pid, 7, None, room),
    # The id of the CPU clock of a process.
    "clock": lambda pid: syscall("clock_gettime", ~pid << 3 | 2, room),
}
for name, ask in QUESTIONS.items():
    observe(name, [pid for pid in range(2, 20000) if pid not in own and answer(ask, pid) in ("worked", "EPERM")][:5])
