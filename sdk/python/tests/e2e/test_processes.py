"""What signals, forks and deaths of processes do, with a real bridge."""

import os
import signal
from typing import Any

from helpers import finished, program, until


def descendants(pid: int) -> set[int]:
    """All processes below this one."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", errors="replace") as file:
                    parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def alive(pids: set[int]) -> set[int]:
    left = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] != "Z":
                    left.add(pid)
        except OSError:
            continue
    return left


def line(process: Any) -> str:
    text: str = process.stdout.readline()
    return text.strip()


def test_ctrl_c_cancels_and_the_sandbox_goes_on() -> None:
    process = program("""
        from thermae import Sandbox
        def ready() -> None:
            print("ready", flush=True)
        with Sandbox(tools=[ready], slots=1) as box:
            try:
                box.run("await ready()\\nwhile True: pass", timeout=60)
            except KeyboardInterrupt:
                print(box.run("print('still there')").stdout.strip())
        """)
    assert line(process) == "ready"
    process.send_signal(signal.SIGINT)
    assert finished(process) == (0, "still there\n", "")


def test_a_killed_client_leaves_no_process() -> None:
    process = program("""
        from thermae import Sandbox
        def ready() -> None:
            print("ready", flush=True)
        with Sandbox(tools=[ready], slots=4) as box:
            list(box.batch(["await ready()\\nwhile True: pass"] * 100, concurrency=100, timeout=60))
        """)
    for _ in range(4):
        assert line(process) == "ready"
    below = descendants(process.pid)
    assert len(below) > 4
    process.kill()
    finished(process)
    until(lambda: not alive(below))


def test_a_program_that_ends_without_closing_leaves_no_process() -> None:
    process = program("""
        import sys
        from thermae import Sandbox
        box = Sandbox(slots=1)
        print(box.run("print(1)").stdout.strip(), flush=True)
        sys.stdin.read()
        """)
    assert line(process) == "1"
    below = descendants(process.pid)
    assert below
    assert finished(process) == (0, "", "")
    until(lambda: not alive(below))


def test_a_forked_child_is_refused_and_disturbs_nobody() -> None:
    process = program("""
        import os, warnings
        from thermae import ForkedClientError, Sandbox
        warnings.simplefilter("ignore", DeprecationWarning)  # From Python 3.12 on, for a fork with threads.
        with Sandbox(slots=1) as box, box.session() as session:
            session.run("x = 1")
            for _ in range(3):
                if (child := os.fork()) == 0:
                    try:
                        session.run("x = 2")
                    except ForkedClientError:
                        with Sandbox(slots=1) as own:
                            os._exit(own.run("print(1)").stdout != "1\\n")
                    os._exit(9)
                assert os.waitpid(child, 0)[1] == 0
            print(session.run("print(x)").stdout.strip())
        """)
    assert finished(process, 60) == (0, "1\n", "")
