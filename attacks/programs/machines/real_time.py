"""
tries = "takes a real-time class and a negative nice value, where the worker's user may do so (`RLIMIT_RTPRIO`, `RLIMIT_NICE`)"
wins = "the processor ahead of everybody else, by a limit that was meant for the worker's user"
guard = "the runner sets both limits to 0 for everything that it starts; the seccomp filter refuses real-time classes"
control = {}
held.real_time_limit = [0, 0]
held.nice_limit = [0, 0]
held.fifo = "EPERM"
held.nice = "EACCES"
held.nice_of_child = "EACCES"
open.fifo = "worked"
open.nice = "worked"
[runsc]
held = { nice = "worked", nice_of_child = "worked", real_time_limit = { any = [[0, 0]] }, nice_limit = { any = [[0, 0]] } }
"""
import resource

observe("real_time_limit", list(resource.getrlimit(resource.RLIMIT_RTPRIO)))
observe("nice_limit", list(resource.getrlimit(13)))
attempt("nice", os.setpriority, os.PRIO_PROCESS, 0, -1)
ready, tells = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(ready, 1)
    os._exit(0)
attempt("nice_of_child", os.setpriority, os.PRIO_PROCESS, pid, -1)
os.write(tells, b"x")
os.waitpid(pid, 0)
attempt("fifo", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
