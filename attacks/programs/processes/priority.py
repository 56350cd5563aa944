"""
tries = "takes a real-time class, a negative nice value, an I/O class, another's priority"
wins = "the processor before everybody else"
guard = "the kernel: no capability; seccomp: no real-time class; ioprio_set and sched_setattr are not in the table"
control = {}
held.fifo = "EPERM"
held.nice = "EACCES"
held.ioprio = "EPERM"
held.sched_setattr = "EPERM"
open.fifo = "worked"
open.nice = "worked"
open.ioprio = "worked"
open.sched_setattr = "worked"
# Of gVisor's own scheduler, which hands all of it to the machine's.
[runsc]
held = { nice = "worked" }
"""
attempt("ioprio", syscall, "ioprio_set", 1, 0, (1 << 13) | 4)
attempt("nice", os.setpriority, os.PRIO_PROCESS, 0, -5)
attempt("sched_setattr", syscall, "sched_setattr", 0, struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, 0, 0, 0), 0)
attempt("fifo", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
