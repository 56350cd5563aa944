"""
tries = "queues real-time signals to itself that it never takes, as many as it can"
wins = "kernel memory that is counted per user: others' signals get lost"
guard = "the kernel counts per user namespace, and each sandbox has one of its own"
uncontrolled = "root's share is not the same"
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
