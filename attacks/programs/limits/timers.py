"""
tries = "makes timers, each of which counts as a queued signal, until the kernel refuses"
wins = "kernel memory, interrupts without end"
guard = "an rlimit on queued signals; the timers end with the process"
slow = true
uncontrolled = "it would fill the machine's kernel memory"
aftermath = true
held.started = true
held.refused = "EAGAIN"
held.timers = { min = 1, max = 200000 }
# A job that takes gVisor's kernel beyond the container's bounds ends that kernel, and itself.
[runsc]
instead = { started = true }
outcome = { status = "lost", error = "sandbox_lost" }
"""
observe("started", True)
tell()
TIMER_CREATE = (222, 107)[MACHINE]
event, timer = struct.pack("QiiI44x", 0, 0, 1, 0), ctypes.c_int()
timers = 0
try:
    while timers < 200000:
        syscall(TIMER_CREATE, 1, event, ctypes.byref(timer))
        timers += 1
except OSError as error:
    observe("refused", errno.errorcode[error.errno])
observe("timers", timers)
