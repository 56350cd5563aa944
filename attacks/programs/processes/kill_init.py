"""
tries = "sends pid 1 every signal with `kill`, and kills it with `tgkill` and through a pidfd"
wins = "the end of the process that holds the sandbox together, at a time of the job's choice"
guard = "the kernel does not deliver a signal from inside a pid namespace to its first process if that has no handler for the signal"
uncontrolled = "this is a property of pid 1; elsewhere, the signals would do harm"
held.sent = { min = 60 }
held.state = "S"
held.children = "exit 0"
[runsc]
skip = "without an inner wall, pid 1 is the runner: a job that kills it ends its container, and is lost (`sandbox_lost`)"
"""
sent = 0
for number in range(1, 65):
    if number in (32, 33):
        continue
    os.kill(1, number)
    sent += 1
syscall("tgkill", 1, 1, signal.SIGKILL)
syscall("pidfd_send_signal", os.pidfd_open(1), signal.SIGKILL, None, 0)
observe("sent", sent)
state = None
for _ in range(6000):
    # SIGCHLD wakes it, to look for children that have ended.
    state = open("/proc/1/stat").read().rsplit(")", 1)[1].split()[0]
    if state == "S":
        break
    time.sleep(0.01)
observe("state", state)
observe("children", child(lambda: 0))
