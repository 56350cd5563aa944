"""
tries = "waits where no signal comes: a vfork whose child sleeps for ever"
wins = "a container, for ever"
guard = "the kill of the pid namespace ends the child, and with it the wait"
slow = true
uncontrolled = "a kill ends any process"
aftermath = true
limits = { wall_ms = 300 }
held.started = true
outcome = { status = "timed_out", error = "wall_timeout" }
"""
import subprocess

observe("started", True)
tell()
# The child executes a fifo's reader: the parent waits in vfork until the open ends, which is never.
os.mkfifo("/tmp/fifo")
subprocess.Popen(["/bin/true"], preexec_fn=lambda: open("/tmp/fifo").read())
