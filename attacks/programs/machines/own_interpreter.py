"""
tries = "changes the interpreter's files (its own user's, if that user installed the interpreter): content, times, modes, names, attributes, new files"
wins = "the next job's interpreter, and every program of that user"
guard = "the file tree is read-only, also for the owner of its files"
control = { within = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /usr/local && exec \"$@\"", "sh"] }
held."*" = "EROFS"
open.made = "worked"
# Where root owns the files, the kernel checks that first.
held.time = { any = ["EROFS", "EPERM", "EACCES"] }
held.mode = { any = ["EROFS", "EPERM"] }
held.attribute = { any = ["EROFS", "EPERM", "EACCES", "EOPNOTSUPP"] }
held.written = { any = ["EROFS", "EACCES", "ETXTBSY"] }
held.appended = { any = ["EROFS", "EACCES"] }
"""
binary = os.path.realpath(sys.executable)
library = os.path.dirname(os.__file__)
if not CONTROL:
    attempt("written", opened, binary, os.O_WRONLY)
    attempt("appended", opened, os.__file__, os.O_WRONLY | os.O_APPEND)
    attempt("time", os.utime, os.__file__)
    attempt("mode", os.chmod, os.__file__, 0o777)
    attempt("attribute", os.setxattr, os.__file__, "user.x", b"1")
    attempt("renamed", os.rename, os.__file__, os.__file__ + "x")
    attempt("removed", os.unlink, os.__file__)
    attempt("linked", os.link, os.__file__, library + "/linked")
attempt("made", lambda: opened(("/usr/local" if CONTROL else library) + "/made", os.O_WRONLY | os.O_CREAT))
