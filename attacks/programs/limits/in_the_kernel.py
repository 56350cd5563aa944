"""
tries = "waits for a child that never starts its program, because it hangs in the open of a FIFO"
wins = "a container, forever"
guard = "the kill of the pid namespace ends the child, and with it the wait"
slow = true
uncontrolled = "a kill ends any process, with or without a sandbox"
aftermath = true
limits = { wall_ms = 300 }
held.started = true
outcome = { status = "timed_out", error = "wall_timeout" }
"""
import subprocess

observe("started", True)
tell()
# The child hangs in the open of the FIFO, and the parent waits until the child executes its program.
os.mkfifo("/tmp/fifo")
subprocess.Popen(["/bin/true"], preexec_fn=lambda: open("/tmp/fifo").read())
