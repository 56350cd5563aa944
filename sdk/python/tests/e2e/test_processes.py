"""What signals, forks and deaths of processes do, with a real bridge."""

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fleets import FLEET, PROMETHEUS, any_fleet
from helpers import alive, descendants, finished, program, until
from other_systems import OVER_HTTP
from over_http import of_the_embedded_fleet


def line(process: Any) -> str:
    """A line of a program's output. Nothing behind it is read: `finished` gets that."""
    text = b""
    while not text.endswith(b"\n") and (byte := os.read(process.stdout.fileno(), 1)):
        text += byte
    return text.decode().strip()


def test_ctrl_c_cancels_and_the_sandbox_goes_on() -> None:
    process = program(f"""
        from thermae import Sandbox
        def ready() -> None:
            print("ready", flush=True)
        with Sandbox(tools=[ready], **{any_fleet(1)!r}) as box:
            try:
                box.run("await ready()\\nwhile True: pass", timeout=60)
            except KeyboardInterrupt:
                print(box.run("print('still there')").stdout.strip())
        """)
    assert line(process) == "ready"
    process.send_signal(signal.SIGINT)
    assert finished(process) == (0, "still there\n", "")


def test_ctrl_c_keeps_the_session() -> None:
    process = program(f"""
        from thermae import Sandbox
        def ready() -> None:
            print("ready", flush=True)
        with Sandbox(tools=[ready], **{any_fleet(1)!r}) as box, box.session() as session:
            session.run("x = 41; open('kept', 'w').write('file')", check=True)
            for code in ["while True: pass", "import time; time.sleep(600)", "await ready()"]:
                try:
                    session.run(f"await ready()\\n{{code}}\\nawait ready()", timeout=60)
                except KeyboardInterrupt:
                    print(session.run("x += 1; print(x, open('kept').read())").stdout.strip(), flush=True)
        """)
    for x in (42, 43):
        assert line(process) == "ready"
        process.send_signal(signal.SIGINT)
        assert line(process) == f"{x} file"
    assert finished(process) == (0, "ready\n" * 3, "")


@of_the_embedded_fleet
def test_a_killed_client_leaves_no_process_and_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    process = program("""
        import os
        from thermae import Sandbox
        def ready() -> None:
            os.write(1, b"ready\\n")  # Calls come in threads: no line may be cut by another.
        with Sandbox(tools=[ready], slots=4) as box:
            list(box.batch(["await ready()\\nwhile True: pass"] * 100, concurrency=100, timeout=60))
        """)
    for _ in range(4):
        assert line(process) == "ready"
    below = descendants(process.pid)
    assert len(below) > 4
    assert list(tmp_path.iterdir()), "the fleet has its folders elsewhere"
    process.kill()
    finished(process)
    until(lambda: not alive(below))
    until(lambda: not list(tmp_path.iterdir()))
    until(lambda: not [name for pid in below for name in control_groups(pid)])


def control_groups(pid: int) -> list[str]:
    """The control groups of the container that this process was the runner of."""
    # Groups of others come and go meanwhile, which `walk` overlooks.
    return [root for root, _, _ in os.walk("/sys/fs/cgroup") if os.path.basename(root) == f"thermae-{pid}"]


def asked(metric: str) -> float:
    """The sum of a metric over the fleet, by its Prometheus."""
    url = f"{PROMETHEUS}/api/v1/query?query={quote(f'sum({metric}) or vector(0)')}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return float(json.load(answer)["data"]["result"][0]["value"][1])


@pytest.mark.fleet
@pytest.mark.prometheus
def test_a_killed_client_leaves_no_job_on_the_fleet() -> None:
    running, handed_out = "thermae_worker_containers{state='busy'}", "thermae_scheduler_credit_used"
    cancelled = "thermae_worker_jobs_total{status='cancelled'}"
    until(lambda: asked(running) == asked(handed_out) == 0)
    before = asked(cancelled)
    process = program(f"""
        import os
        from thermae import Sandbox
        def ready() -> None:
            os.write(1, b"ready\\n")  # Calls come in threads: no line may be cut by another.
        with Sandbox({FLEET!r}, tools=[ready]) as box:
            list(box.batch(["await ready()\\nwhile True: pass"] * 100, concurrency=100, timeout=60))
        """)
    for _ in range(4):
        assert line(process) == "ready"
    until(lambda: asked(running) >= 4)
    below = descendants(process.pid)
    # Over HTTP, a client has no process beside it.
    assert bool(below) != OVER_HTTP
    process.kill()
    finished(process)
    until(lambda: not alive(below))
    # Those that waited for a container never ran, so the workers have cancelled only the others.
    until(lambda: asked(running) == asked(handed_out) == 0, 30)
    assert asked(cancelled) >= before + 4


def test_a_program_that_ends_without_closing_leaves_no_process() -> None:
    process = program(f"""
        import sys
        from thermae import Sandbox
        box = Sandbox(**{any_fleet(1)!r})
        print(box.run("print(1)").stdout.strip(), flush=True)
        sys.stdin.read()
        """)
    assert line(process) == "1"
    below = descendants(process.pid)
    # Over HTTP, a client has no process beside it.
    assert bool(below) != OVER_HTTP
    assert finished(process) == (0, "", "")
    until(lambda: not alive(below))


def test_a_forked_child_is_refused_and_disturbs_nobody() -> None:
    process = program(
        f"""
        import os
        from thermae import ForkedClientError, Sandbox
        with Sandbox(**{any_fleet(1)!r}) as box, box.session() as session:
            session.run("x = 1")
            for _ in range(3):
                if (child := os.fork()) == 0:
                    try:
                        session.run("x = 2")
                    except ForkedClientError:
                        with Sandbox(**{any_fleet(1)!r}) as own:
                            os._exit(own.run("print(1)").stdout != "1\\n")
                    os._exit(9)
                assert os.waitpid(child, 0)[1] == 0
            print(session.run("print(x)").stdout.strip())
        """,
        forks=True,
    )
    assert finished(process, 60) == (0, "1\n", "")
