"""A run that waits for a person survives the process that began it.

A first process begins a run that asks for approval, and is killed while it waits. A second one, this one, attaches to
the run by its id, sees the call that waits, and answers it. The program goes on where it was. `THERMAE_URL` must name
the fleet.

It prints:

    the first process is dead
    asked: approve {'amount': 480}
    receipt R-480
"""

import signal
import subprocess
import sys
import time

from thermae import Sandbox, declare_tool, tool

approve = declare_tool(
    "approve",
    description="Asks a person whether to pay.",
    input_schema={"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]},
    output_schema={"type": "boolean"},
)


@tool
def pay(amount: float) -> str:
    """Pays an amount, in euros. Returns the number of the receipt."""
    return f"R-{amount:.0f}"


PROGRAM = """
amount = 480
if await approve(amount=amount):
    print("receipt", await pay(amount=amount))
"""


def begin() -> None:
    """The first process: begins the run, and tells its id once the call waits."""
    with Sandbox(tools=[approve, pay]) as box:
        run = box.submit(PROGRAM, pause=200, tool_wait=200)
        while not run.pending():
            time.sleep(0.05)
        print(run.id, flush=True)
        sys.stdin.read()


def resume(run_id: str) -> None:
    """The second process: decides, and waits for the result."""
    with Sandbox(tools=[pay]) as box:
        run = box.attach(run_id)
        (call,) = run.pending()
        print("asked:", call.tool, call.arguments)
        run.answer(call, True)
        print(run.result(timeout=30).stdout, end="")


if sys.argv[1:]:
    begin()
else:
    command = [sys.executable, __file__, "begin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        run_id = first.stdout.readline().strip()
        first.kill()
    assert first.returncode == -signal.SIGKILL
    print("the first process is dead")
    resume(run_id)
