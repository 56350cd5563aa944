"""The files of a session survive everything that held it.

A first process works in a session that stores its files after each run (`checkpoint="after_job"`). It is killed in the
middle of its next run, and its embedded fleet ends with it. A second one, this one, opens a fleet with the same store.
It finds the files as the last run left them, with their modes, and nothing of the run that was cut off.

It prints:

    the first process is dead
    fresh: True, files: 2
    step 1 is done
"""

import signal
import subprocess
import sys
import tempfile

from thermae import Sandbox

STEP = """
import os
with open("progress.sh", "w") as file:
    file.write("echo step 1 is done")
os.chmod("progress.sh", 0o755)
os.symlink("progress.sh", "latest")
"""
CUT_OFF = """
with open("progress.sh", "w") as file:
    file.write("echo step 2 is")
    file.flush()
    print("half written", flush=True)
    import time
    time.sleep(600)
"""


def begin(store: str) -> None:
    """The first process: one run that ends, and one that doesn't."""
    with Sandbox(store=store) as box, box.session("report", checkpoint="after_job") as session:
        result = session.run(STEP, check=True)
        assert result.session is not None
        assert result.session.checkpointed
        for event in session.stream(CUT_OFF):
            print(event, flush=True)


def resume(store: str) -> None:
    """The second process: goes on from the checkpoint."""
    with Sandbox(store=store) as box, box.session("report", checkpoint="after_job") as session:
        result = session.run("import subprocess\nprint(subprocess.check_output(['bash', 'latest'], text=True), end='')")
        assert result.session is not None
        print(f"fresh: {result.session.fresh}, files: {result.session.restored_files}")
        print(result.stdout, end="")


if sys.argv[1:]:
    begin(sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen([sys.executable, __file__, folder], stdout=subprocess.PIPE, text=True) as first:
            assert first.stdout is not None
            assert any("half written" in line for line in first.stdout)
            first.kill()
        assert first.returncode == -signal.SIGKILL
        print("the first process is dead")
        resume(folder)
