"""
tries = "opens the memory of pid 1 for reading and for writing"
wins = "its own code in a process that was never sandboxed"
guard = "pid 1 is not dumpable, and for access checks it belongs to the namespace above"
control = { within = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh"] }
held."*" = "EACCES"
open."*" = "worked"
"""
attempt("read", opened, "/proc/1/mem")
attempt("write", opened, "/proc/1/mem", os.O_RDWR)
