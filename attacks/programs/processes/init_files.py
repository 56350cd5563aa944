"""
tries = "reads everything that `/proc` shows of pid 1 beyond its status: root, cwd, exe, descriptors, maps, environment"
wins = "a way past the walls by pid 1's root and descriptors; addresses; secrets in its environment"
guard = "pid 1 is not dumpable"
control = { within = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh"] }
held."*" = "EACCES"
open.root = "worked"
open.cwd = "worked"
open.exe = "worked"
open.fd = "worked"
open.maps = "worked"
open.environ = "worked"
[runsc]
skip = "without an inner wall, pid 1 is the runner, which has the same user, and gVisor lets that user read it; it has no secret except this job's"
"""


def read(name):
    with open("/proc/1/" + name, "rb") as file:
        file.read()


attempt("root", os.listdir, "/proc/1/root")
attempt("cwd", os.listdir, "/proc/1/cwd")
attempt("exe", os.readlink, "/proc/1/exe")
attempt("fd", os.listdir, "/proc/1/fd")
attempt("map_files", os.listdir, "/proc/1/map_files")
for name in ("maps", "smaps", "environ", "auxv", "syscall", "stack", "io", "personality", "pagemap"):
    attempt(name, read, name)
