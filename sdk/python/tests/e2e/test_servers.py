"""Gunicorn with `--preload`: its master imports the application, and then forks its workers."""

import http.client
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from fleets import any_fleet
from helpers import alive, descendants, environment, until

APPLICATION = """
import os
from thermae import ForkedClientError, Sandbox

used, unused = Sandbox(**OPTIONS), Sandbox(**OPTIONS)
print("master", used.run("print(6 * 7)").stdout.strip(), os.getpid(), flush=True)

def app(environ, start_response):
    try:
        said = used.run("print('not in a child')").stdout
    except ForkedClientError:
        said = unused.run(f"print('worker {os.getpid()}')").stdout
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [said.encode()]
"""


def answer(port: int) -> str:
    """What the server says."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/")
        response = connection.getresponse()
        assert response.status == 200
        return response.read().decode().strip()
    finally:
        connection.close()


def test_gunicorn_that_preloads_its_application(tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(f"OPTIONS = {any_fleet(1)!r}\n{APPLICATION}")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-m", "gunicorn", "--preload"]
        command += ["--workers", "2", "--bind", f"fd://{listener.fileno()}", "--no-control-socket", "served:app"]
        server = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            text=True,
        )
    assert server.stdout is not None
    with server.stdout:
        assert server.stdout.readline() == f"master 42 {server.pid}\n"
        seen: set[str] = set()

        def both_have_answered() -> bool:
            seen.add(answer(port))
            return len(seen) == 2

        until(both_have_answered)
        assert all(one.startswith("worker ") and one != f"worker {server.pid}" for one in seen), seen
        below = descendants(server.pid)
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait(30) == 0
    until(lambda: not alive(below))
