"""
tries = "aborts in a child, so that the kernel would dump its memory"
wins = "a file of its memory outside the sandbox, written by the machine's root because of `core_pattern`"
guard = "an rlimit of 1 on core dumps, at which there is no core file and no handler; the pattern can't be changed"
uncontrolled = "a control would leave a core file on the machine"
held.end = "SIGABRT"
held.dumped = false
held.limit = [1, 1]
"""
import resource

observe("limit", list(resource.getrlimit(resource.RLIMIT_CORE)))
pid = os.fork()
if pid == 0:
    os.abort()
status = os.waitpid(pid, 0)[1]
observe("end", signal.Signals(os.WTERMSIG(status)).name)
observe("dumped", os.WCOREDUMP(status))
