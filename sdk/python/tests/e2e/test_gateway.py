"""Gateways that end, or are killed, while they are used."""

import threading
from collections.abc import Iterator

import pytest
from helpers import finished, program
from served import KEY, Served

from thermae import Sandbox, errors


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served(slots=2)
    yield served
    if served.process.poll() is None:
        served.stop()


@pytest.mark.parametrize(("end", "kind"), [("stop", errors.GatewayStopping), ("kill", errors.ConnectionLost)])
def test_a_gateway_that_ends_says_what_became_of_the_runs(
    served: Served, end: str, kind: type[errors.ThermaeError]
) -> None:
    begun = threading.Event()
    raised: list[errors.ThermaeError] = []

    def begin() -> None:
        begun.set()

    with Sandbox(served.url, api_key=KEY, tools=[begin]) as box:
        # Nobody can close it in the end.
        session = box.session("s")
        session.run("x = 1")

        def run() -> None:
            try:
                box.run("await begin()\nwhile True: pass", job_id="mine", timeout=60)
            except errors.ThermaeError as error:
                raised.append(error)

        running = threading.Thread(target=run)
        running.start()
        assert begun.wait(30)
        getattr(served, end)()
        running.join(30)
        # The fleet ended with its gateway, so nothing is repeated.
        assert [type(one) for one in raised] == [kind]
        assert raised[0].request_id == "mine"
        with pytest.raises(errors.GatewayUnreachable):
            session.run("x", max_retries=0)


def test_a_client_that_is_killed_leaves_no_job(served: Served) -> None:
    process = program(f"""
        import os
        from thermae import Sandbox
        def ready() -> None:
            os.write(1, b"ready\\n")
        with Sandbox({served.url!r}, api_key={KEY!r}, tools=[ready]) as box:
            list(box.batch(["await ready()\\nwhile True: pass"] * 4, concurrency=4, timeout=60))
        """)
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline() == "ready\n"
    process.kill()
    finished(process)
    # There are two slots, and both are free soon.
    with Sandbox(served.url, api_key=KEY) as box:
        results = list(box.batch(["print(1)"] * 2, concurrency=2, timeout=30))
        assert [one.result.stdout for one in results] == ["1\n"] * 2


def test_a_client_that_is_killed_leaves_its_session(served: Served) -> None:
    process = program(f"""
        import os
        from thermae import Sandbox
        def ready() -> None:
            os.write(1, b"ready\\n")
        with Sandbox({served.url!r}, api_key={KEY!r}, tools=[ready]) as box:
            session = box.session("s")
            session.run("x = 41", check=True)
            session.run("await ready()\\nwhile True: pass", timeout=60)
        """)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    finished(process)
    with Sandbox(served.url, api_key=KEY) as box, box.connect("s") as session:
        assert session.run("print(x)").stdout == "41\n"


def test_a_forked_child_is_refused_and_disturbs_nobody(served: Served) -> None:
    process = program(
        f"""
        import os
        from thermae import ForkedClientError, Sandbox
        with Sandbox({served.url!r}, api_key={KEY!r}) as box, box.session() as session:
            session.run("x = 1")
            for _ in range(3):
                if (child := os.fork()) == 0:
                    try:
                        session.run("x = 2")
                    except ForkedClientError:
                        with Sandbox({served.url!r}, api_key={KEY!r}) as own:
                            os._exit(own.run("print(1)").stdout != "1\\n")
                    os._exit(9)
                assert os.waitpid(child, 0)[1] == 0
            print(session.run("print(x)").stdout.strip())
        """,
        forks=True,
    )
    assert finished(process, 60) == (0, "1\n", "")
