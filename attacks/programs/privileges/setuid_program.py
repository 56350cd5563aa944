"""
tries = "makes a set-user-id program and runs it, and runs those of the system"
wins = "root, in the oldest way there is"
guard = "`no_new_privs` is set; everything is mounted `nosuid`; only the job's own user is mapped"
uncontrolled = "the machine's own set-user-id programs should not be tried out"
held.own = "1000"
held.own_mode = "0o4755"
held.system = "1000"
held.nosuid = true
# On gVisor, the mounts' flags allow set-user-id programs, but no_new_privs does not.
# The ids are those of the container's user.
[runsc]
held = { own = "noexec", system = { none = ["0"] }, nosuid = false }
"""
import shutil
import subprocess

shutil.copy("/usr/bin/id", PLACE + "/id")
os.chmod(PLACE + "/id", 0o4755)
observe("own_mode", oct(os.stat(PLACE + "/id").st_mode & 0o7777))
try:
    observe("own", subprocess.run([PLACE + "/id", "-u"], capture_output=True, text=True).stdout.strip())
except PermissionError:
    observe("own", "noexec")
# Every set-user-id program of the system starts as the job's own user.
script = "for f in /usr/bin/su /usr/bin/mount /usr/bin/passwd /usr/bin/newuidmap; do $f --version >/dev/null 2>&1; done; id -u"
observe("system", subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout.strip())
mounts = [line.split() for line in open("/proc/self/mounts")]
# A mount point that another mount covers can't be reached, and may be missing.
observe("nosuid", all(os.statvfs(mount[1]).f_flag & os.ST_NOSUID for mount in mounts if os.path.exists(mount[1])))
