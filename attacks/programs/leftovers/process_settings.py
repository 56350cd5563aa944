"""
tries = "changes what the kernel keeps for a process: nice value, processors, umask, timer slack, working directory, huge pages"
wins = "a next job that is slow, or that writes files which others may read"
guard = "each job is a fork of an interpreter in which no job has run"
control = { mode = "same" }
held.changed = true
held.niceness = 10
held.umask = 18
held.slack = { max = 60000 }
held.huge = 0
held.folder = true
held.processors = true
open.niceness = 7
open.umask = 63
"""
before = len(os.sched_getaffinity(0))
os.nice(7)
os.umask(0o077)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
libc.prctl(29, ctypes.c_ulong(5000000), 0, 0, 0)
libc.prctl(41, 1, 0, 0, 0)
os.chdir("/")
observe("changed", True)
# --- the next job
observe("niceness", os.getpriority(os.PRIO_PROCESS, 0))
mask = os.umask(0)
observe("umask", mask)
observe("slack", libc.prctl(30, 0, 0, 0, 0))
observe("huge", libc.prctl(42, 0, 0, 0, 0))
observe("folder", os.getcwd() != "/")
observe("processors", len(os.sched_getaffinity(0)) == os.cpu_count() or CONTROL)
