"""
tries = "links to what it may not read, softly and hard, and by a descriptor without a name (O_TMPFILE, O_PATH)"
wins = "a way past the file's own rights, or past whoever follows a link for it"
guard = "soft links end in the sandbox's own tree; hard links don't leave a file system"
control = {}
held.soft = "ENOENT"
held.hard = "EXDEV"
held.path_descriptor = { any = ["EXDEV", "ENOENT", "EPERM"] }
held.shadow = "ENOENT"
open.soft = "worked"
# An image has a file of that name, its own; and the job is not its root.
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
