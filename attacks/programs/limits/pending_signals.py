"""
tries = "queues as many real-time signals to itself as it can, and never takes them"
wins = "kernel memory that is counted per user, so that others' signals get lost"
guard = "the kernel counts signals per user namespace, and each sandbox has its own"
uncontrolled = "root's share is a different one"
aftermath = true
held.refused = "EAGAIN"
held.queued = { min = 1, max = 1000000 }
[runsc]
held.refused = { any = ["EAGAIN", ""] }
"""
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
information = struct.pack("iiii112x", 0, 0, -1, 0)
queued, refused = 0, ""
while queued < 1000000 and not refused:
    found = answer(syscall, "rt_sigqueueinfo", os.getpid(), int(signal.SIGRTMIN), information)
    if found == "worked":
        queued += 1
    else:
        refused = found
observe("queued", queued)
observe("refused", refused)
