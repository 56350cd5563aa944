"""
tries = "makes itself the last one that the kernel kills for memory, and pid 1 the first"
wins = "others killed in its place"
guard = "/proc is read-only; jobs are the first by what the runner sets"
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
