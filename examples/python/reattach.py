"""A session on a fleet survives the process that made it.

A first process begins an analysis in a session, and is killed in the middle of its work. A second one, this one,
connects to the session by its name, and finds the variables. `THERMAE_URL` must name the fleet.

It prints:

    the first process is dead
    the session still has 100000 rows
"""

import signal
import subprocess
import sys
import uuid

from thermae import Sandbox


def begin(name: str) -> None:
    """The first process: prepares the data, then waits for orders that never come."""
    with Sandbox() as box, box.session(name) as session:
        session.run("rows = list(range(100_000))", check=True)
        print("ready", flush=True)
        sys.stdin.read()


def resume(name: str) -> None:
    """The second process: goes on where the first one ended."""
    with Sandbox() as box, box.connect(name) as session:
        print("the session still has", session.run("print(len(rows))", check=True).stdout.strip(), "rows")
        session.close()


if sys.argv[1:]:
    begin(sys.argv[1])
else:
    session_name = f"analysis-{uuid.uuid4()}"
    command = [sys.executable, __file__, session_name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        first.kill()
    assert first.returncode == -signal.SIGKILL
    print("the first process is dead")
    resume(session_name)
