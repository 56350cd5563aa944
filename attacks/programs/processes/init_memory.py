"""
tries = "opens the memory of pid 1, to read it and to write to it"
wins = "code of one's own in a process that was never sandboxed"
guard = "pid 1 is not dumpable, and belongs to the namespace above for all that matters"
control = { within = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh"] }
held."*" = "EACCES"
open."*" = "worked"
"""
attempt("read", opened, "/proc/1/mem")
attempt("write", opened, "/proc/1/mem", os.O_RDWR)
