"""
tries = "makes a set-user-id program and runs it; runs those of the system"
wins = "root by the oldest way there is"
guard = "no_new_privs; everything is mounted nosuid; no user but the job's is mapped"
uncontrolled = "the machine's own set-user-id programs are not to be tried out"
held.own = "1000"
held.own_mode = "0o4755"
held.system = "1000"
held.nosuid = true
# By their flags alone the mounts allow it, which no_new_privs does not. The container's user.
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
# Whatever set-user-id program there is, it begins as the job's user.
script = "for f in /usr/bin/su /usr/bin/mount /usr/bin/passwd /usr/bin/newuidmap; do $f --version >/dev/null 2>&1; done; id -u"
observe("system", subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout.strip())
mounts = [line.split() for line in open("/proc/self/mounts")]
# What another mount covers can't be reached.
observe("nosuid", all(os.statvfs(mount[1]).f_flag & os.ST_NOSUID for mount in mounts if os.path.exists(mount[1])))
