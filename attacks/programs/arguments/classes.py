"""
tries = "takes each privileged scheduling class (real-time, deadline, extended), also with the flag that makes children fall back to the normal class"
wins = "the processor ahead of everybody else, where the machine allows that to its users"
guard = "the seccomp filter allows `sched_setscheduler` only with the classes that share the processor"
control = {}
held."*" = "EPERM"
held.batch = "worked"
held.idle = "worked"
open.fifo = "worked"
open.round_robin = "worked"
"""
for name, policy, priority in [("fifo", 1, 1), ("round_robin", 2, 1), ("deadline", 6, 0), ("extended", 7, 0), ("fifo_not_inherited", 0x40000001, 1)]:
    call("sched_setscheduler", 0, policy, struct.pack("i", priority), told=name)
call("sched_setscheduler", 0, 3, struct.pack("i", 0), told="batch")
call("sched_setscheduler", 0, 5, struct.pack("i", 0), told="idle")
