"""
tries = "writes to its interpreter's program through `/proc/self/exe`, and to the runner's through `/proc/1/exe`"
wins = "its own code in the next process of that program (CVE-2019-5736)"
guard = "the file tree is read-only; pid 1 is not dumpable"
control = { within = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh"] }
held.self = { any = ["EROFS", "ETXTBSY", "EACCES"] }
held.init = "EACCES"
# The kernel checks first who owns the file.
held.library = { any = ["EROFS", "EACCES"] }
held.read_only = true
# Without a sandbox, the kernel protects only the running program, and its libraries can be written.
open.library = "worked"
open.read_only = false
[runsc]
held.read_only = false
"""
attempt("self", opened, "/proc/self/exe", os.O_WRONLY)
attempt("init", opened, "/proc/1/exe", os.O_WRONLY)
attempt("library", opened, os.__file__, os.O_WRONLY)
observe("read_only", bool(os.statvfs(os.__file__).f_flag & os.ST_RDONLY))
