"""
tries = "opens `oom_score_adj` of itself and of pid 1 for writing, so that the kernel would kill it last for lack of memory, and pid 1 first"
wins = "others that are killed in its place"
guard = "`/proc` is read-only; the runner has set the job to be killed first"
control = {}
held.own = "EROFS"
held.own_adj = "EROFS"
held.init = { any = ["EROFS", "EACCES"] }
held.score = "900"
open.own = "worked"
[runsc]
held = { own = "EACCES", own_adj = "ENOENT", score = "0" }
"""
attempt("own", opened, "/proc/self/oom_score_adj", os.O_WRONLY)
attempt("own_adj", opened, "/proc/self/oom_adj", os.O_WRONLY)
attempt("init", opened, "/proc/1/oom_score_adj", os.O_WRONLY)
observe("score", open("/proc/self/oom_score_adj").read().strip())
