"""
tries = "leaves environment variables, another umask and working directory, a signal handler, a timer, a nice value, a low limit on descriptors"
wins = "different behaviour of the next job's programs (`LD_PRELOAD`, `PYTHONSTARTUP`)"
guard = "each job's process is forked from a zygote that no job's bytes pass through"
control = { mode = "same" }
held.left = "all"
held.variable = "missing"
held.umask = { none = ["0o777"] }
held.nice = 10
held.handler = "default"
held.alarm = 0
held.files = { min = 1024 }
open.variable = "there"
open.nice = 5
open.handler = "other"
"""
import resource

os.environ["LD_PRELOAD"] = "/workspace/evil.so"
libc.setenv(b"THERMAE_LEFT", b"x", 1)
os.umask(0o777)
os.nice(5)
signal.signal(signal.SIGUSR1, lambda *_: None)
if not CONTROL:
    os.chdir("/tmp")
    signal.alarm(600)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
observe("left", "all")
# --- the next job
import resource

observe("variable", "there" if "LD_PRELOAD" in os.environ or "THERMAE_LEFT" in os.environ else "missing")
observe("umask", oct(os.umask(0o22)))
observe("nice", os.getpriority(os.PRIO_PROCESS, 0))
observe("handler", "default" if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL else "other")
observe("alarm", signal.alarm(0))
observe("files", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
os.environ.pop("LD_PRELOAD", None)
