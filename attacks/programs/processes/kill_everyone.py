"""
tries = "kills every process that it may, by pid -1 and by process group"
wins = "the end of the runner, a zygote or another job"
guard = "a pid namespace of its own: everyone is the sandbox's own child"
uncontrolled = "outside it would end the machine's processes"
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
# The runner is in no namespace that the job can see.
observe("own_parent", os.getppid())
# --- the neighbour
at_gate()
observe("neighbour", "alive")
