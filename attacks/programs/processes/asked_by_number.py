"""
tries = "asks by every pid up to 20,000 for session, scheduling class, limits and CPU clock"
wins = "who else runs there, and how busy: the runner, the zygotes, other sandboxes"
guard = "a pid namespace of its own"
control = {}
held.session = []
held.class = []
held.limits = []
held.clock = []
open.session = { none = [[]] }
open.clock = { none = [[]] }
[runsc]
skip = "without an inner wall the runner and its zygotes can be seen; the container has no other job's processes"
"""
room = ctypes.create_string_buffer(16)
own = {1, os.getpid(), os.getppid()}
QUESTIONS = {
    "session": lambda pid: syscall("getsid", pid),
    "class": lambda pid: syscall("sched_getscheduler", pid),
    "limits": lambda pid: syscall("prlimit64", pid, 7, None, room),
    # The number of a process's own clock.
    "clock": lambda pid: syscall("clock_gettime", ~pid << 3 | 2, room),
}
for name, ask in QUESTIONS.items():
    observe(name, [pid for pid in range(2, 20000) if pid not in own and answer(ask, pid) in ("worked", "EPERM")][:5])
