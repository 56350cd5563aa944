"""
tries = "starts threads until the kernel refuses"
wins = "a machine that has no process left for others"
guard = "an rlimit on processes and threads, per sandbox"
uncontrolled = "it would take the machine down"
aftermath = true
held.threads = { min = 10, max = 64 }
held.refused = "RuntimeError"
# On gVisor, the container's control group is the bound.
[runsc]
held.threads = { min = 10 }
"""
import threading

gate_to_go = threading.Event()
threads = 0
try:
    while threads < 5000:
        threading.Thread(target=gate_to_go.wait, daemon=True).start()
        threads += 1
except RuntimeError as error:
    observe("refused", type(error).__name__)
gate_to_go.set()
observe("threads", threads)
