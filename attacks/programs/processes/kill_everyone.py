"""
tries = "kills every process that it may, by pid -1"
wins = "the end of the runner, of a zygote or of another job"
guard = "each sandbox has its own pid namespace, so the job reaches only its own children"
uncontrolled = "outside a sandbox, it would end the machine's processes"
held.child = "SIGKILL"
held.all = "worked"
held.own_parent = 0
held.neighbour = "alive"
[runsc]
held.own_parent = 1
"""
pid = os.fork()
if pid == 0:
    os.setsid()
    signal.pause()
time.sleep(0.05)
attempt("all", os.kill, -1, signal.SIGKILL)
status = os.waitpid(pid, 0)[1]
observe("child", signal.Signals(os.WTERMSIG(status)).name)
# The parent shows as 0, because the runner is outside the job's pid namespace.
observe("own_parent", os.getppid())
# --- the neighbour
at_gate()
observe("neighbour", "alive")
