"""
tries = "dies with a core dump of a large memory"
wins = "a file of its memory outside, written by the machine's root by way of core_pattern"
guard = "rlimit: no core file at 1, nor a handler; the pattern can't be changed"
uncontrolled = "a core file of the machine's is nobody's to make"
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
