"""
tries = "makes symbolic and hard links to files that it may not read, and a hard link from an `O_PATH` descriptor"
wins = "a way past the file's own permissions, or past a program that follows a link for the job"
guard = "symbolic links end in the sandbox's own tree; hard links can't leave a file system"
control = {}
held.soft = "ENOENT"
held.hard = "EXDEV"
held.path_descriptor = { any = ["EXDEV", "ENOENT", "EPERM"] }
held.shadow = "ENOENT"
open.soft = "worked"
# The image has an /etc/shadow of its own, and the job is not root there.
[docker]
held.shadow = "EACCES"
[runsc]
held.shadow = "EACCES"
"""
here = PLACE
os.symlink(TARGET["file"], here + "/soft")
attempt("soft", opened, here + "/soft")
if not CONTROL:
    os.symlink("/etc/shadow", here + "/shadow")
    attempt("shadow", opened, here + "/shadow")
    attempt("hard", os.link, "/etc/passwd", here + "/hard")
    handle = os.open("/etc/passwd", os.O_PATH)
    attempt("path_descriptor", lambda: os.link("/proc/self/fd/%d" % handle, here + "/hard", follow_symlinks=True))
