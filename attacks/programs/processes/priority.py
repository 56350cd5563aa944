"""
tries = "takes a real-time class, a negative nice value and an I/O class, and sets its scheduling attributes"
wins = "the processor ahead of everybody else"
guard = "the kernel requires a capability, which the job lacks; the seccomp filter refuses real-time classes, `ioprio_set` and `sched_setattr`"
control = {}
held.fifo = "EPERM"
held.nice = "EACCES"
held.ioprio = "EPERM"
held.sched_setattr = "EPERM"
open.fifo = "worked"
open.nice = "worked"
open.ioprio = "worked"
open.sched_setattr = "worked"
# On gVisor, this is a value of gVisor's own, which leaves all scheduling to the machine.
[runsc]
held = { nice = "worked" }
"""
attempt("ioprio", syscall, "ioprio_set", 1, 0, (1 << 13) | 4)
attempt("nice", os.setpriority, os.PRIO_PROCESS, 0, -5)
attempt("sched_setattr", syscall, "sched_setattr", 0, struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, 0, 0, 0), 0)
attempt("fifo", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
