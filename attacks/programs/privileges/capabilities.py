"""
tries = "looks for a capability in each of its sets, gives itself all of them, and keeps its own over an `exec`"
wins = "any of root's powers"
guard = "all sets are empty, including the bounding set; the seccomp filter refuses `capset` once the job is in its sandbox"
control = {}
held.sets = "0000000000000000"
held.no_new_privs = "1"
held.capset = "EPERM"
held.after_exec = "0000000000000000"
open.sets = { none = ["0000000000000000"] }
open.capset = "worked"
[runsc]
held.no_new_privs = "not told"
"""
import subprocess


def status(path):
    with open(path) as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


own = status("/proc/self/status")
sets = {own[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if name in own}
observe("sets", sets.pop() if len(sets) == 1 else "several")
observe("no_new_privs", own.get("NoNewPrivs", "not told"))
shown = subprocess.run(["/bin/sh", "-c", "cat /proc/self/status"], capture_output=True, text=True).stdout
observe("after_exec", [line.split()[1] for line in shown.splitlines() if line.startswith("CapEff")][0])
header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
call("capset", header, nothing)
