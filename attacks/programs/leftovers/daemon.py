"""
tries = "leaves a process that has forked twice, has a session of its own, and ignores every signal"
wins = "a way to watch and to disturb the next job"
guard = "the sandbox's pid 1 is killed with the job, and the kernel ends every process of its namespace"
control = {}
held.daemon = "started"
held.found = []
open.found = { none = [[]] }
"""
name = ("d" + TARGET["nonce"])[:15]
ready, tells = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        libc.prctl(15, name.encode(), 0, 0, 0)
        os.write(tells, b"x")
        time.sleep(4 if CONTROL else 600)
    os._exit(0)
os.read(ready, 1)
observe("daemon", "started")
# --- the next job
found = []
for pid in os.listdir("/proc"):
    try:
        with open("/proc/%s/comm" % pid) as file:
            comm = file.read().strip()
    except OSError:
        continue
    if len(comm) == 15 and comm[0] == "d" and comm[1:].isalnum():
        found.append("daemon")
observe("found", found)
