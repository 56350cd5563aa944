"""Runs an attack's programs with no sandbox around them: `control.py PLAN`, a JSON file (src/control.rs).

The programs append what they find to the file that the plan's target names.
"""

import json
import os
import subprocess
import sys

with open(sys.argv[1]) as file:
    plan = json.load(file)
os.environ["ATTACK"] = plan["target"]


def start(code, **pipes):
    return subprocess.Popen([sys.executable, "-I", "-c", code], stdout=pipes.pop("stdout", subprocess.DEVNULL), close_fds=False, **pipes)


def in_this_one(code):
    os.environ["ATTACK"] = plan["target"]
    exec(compile(code, "attack", "exec"), {"__name__": "__main__"})


def bare_fork(code):
    """Like `os.fork`, but without the hooks that tell libraries about the fork: what a careless zygote would do."""
    import ctypes
    import signal

    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    pid = ctypes.PyDLL(None).syscall(number, signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        status = 1
        try:
            in_this_one(code)
            status = 0
        finally:
            os._exit(status)
    os.waitpid(pid, 0)


if plan["neighbour"]:
    neighbour = start(plan["neighbour"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    neighbour.stdout.readline()
if plan["mode"] == "fork":
    import random
    import tempfile
    import uuid

    random.random(), uuid.uuid4(), next(tempfile._get_candidate_names())
for code in plan["jobs"]:
    if plan["mode"] == "apart":
        start(code).wait()
    elif plan["mode"] == "fork":
        bare_fork(code)
    else:
        in_this_one(code)
if plan["neighbour"]:
    neighbour.communicate(b"go\n")
