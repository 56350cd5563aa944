"""What signals, forks and deaths of processes do. Each test is a program of its own."""

import os
import signal
from typing import Any

from bridge_log import Log
from helpers import children, finished, program, until
from over_http import of_the_bridge


def running(bridge: Log, jobs: int = 1) -> Any:
    return until(lambda: len(bridge.frames("run")) >= jobs and bridge.frames("run"))


def ended(bridge: Log) -> Any:
    """Whether every bridge has seen the end of its client."""
    return until(lambda: len(bridge.frames("eof")) == len(bridge.frames("start")))


def test_ctrl_c_cancels_the_job_and_raises(bridge: Log) -> None:
    process = program("""
        from thermae import Sandbox
        with Sandbox() as box:
            try:
                box.run("wait")
            except KeyboardInterrupt:
                print("interrupted")
            print(box.run("print still there").stdout)
        """)
    running(bridge)
    process.send_signal(signal.SIGINT)
    status, out, err = finished(process)
    assert (status, out, err) == (0, "interrupted\nstill there\n\n", "")
    assert len(bridge.frames("cancel")) == 1


@of_the_bridge
def test_ctrl_c_just_after_a_job_was_sent_cancels_it(bridge: Log) -> None:
    process = program("""
        import signal
        from thermae import Sandbox
        from thermae._frame_stream import FrameStream
        def send_and_interrupt(self, frame, send=FrameStream.try_send):
            FrameStream.try_send = send
            assert send(self, frame)
            signal.raise_signal(signal.SIGINT)
        with Sandbox() as box:
            print(box.run("print begun").stdout)
            FrameStream.try_send = send_and_interrupt
            try:
                box.run("wait")
            except KeyboardInterrupt:
                print("interrupted")
            print(box.run("print still there").stdout)
        """)
    assert finished(process) == (0, "begun\n\ninterrupted\nstill there\n\n", "")
    assert len(bridge.frames("cancel")) == 1


def test_ctrl_c_just_after_the_loop_got_a_job_cancels_it(bridge: Log) -> None:
    process = program("""
        import signal
        from thermae import Sandbox
        with Sandbox() as box:
            print(box.run("print begun").stdout)
            loop, call = box._runner.loop, box._runner.loop.call_soon_threadsafe
            def call_and_interrupt(*args, **others):
                loop.call_soon_threadsafe = call
                call(*args, **others)
                while not box._async.under_way:
                    pass
                signal.raise_signal(signal.SIGINT)
            loop.call_soon_threadsafe = call_and_interrupt
            try:
                box.run("wait", on_stdout=print)
            except KeyboardInterrupt:
                print("interrupted")
            print(box.run("print still there").stdout)
        """)
    assert finished(process) == (0, "begun\n\ninterrupted\nstill there\n\n", "")
    assert len(bridge.frames("cancel")) == len(bridge.frames("run")) - 2


def test_ctrl_c_ends_a_program_with_the_usual_traceback_alone(bridge: Log) -> None:
    process = program("""
        from thermae import Sandbox
        with Sandbox() as box:
            box.run("wait", on_stdout=print)
        """)
    running(bridge)
    process.send_signal(signal.SIGINT)
    status, _, err = finished(process)
    assert status == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert err.count("Traceback") == 1
    ended(bridge)


def test_ctrl_c_in_a_batch_cancels_what_is_under_way(bridge: Log) -> None:
    process = program("""
        from thermae import Sandbox
        with Sandbox() as box:
            try:
                list(box.batch(["wait"] * 5))
            except KeyboardInterrupt:
                print("interrupted")
            print(box.run("print a").stdout)
        """)
    running(bridge, 5)
    process.send_signal(signal.SIGINT)
    status, out, err = finished(process)
    assert (status, out, err) == (0, "interrupted\na\n\n", "")
    assert len(bridge.frames("cancel")) == 5


def test_ctrl_c_ends_asyncio_run(bridge: Log) -> None:
    process = program("""
        import asyncio
        from thermae import AsyncSandbox
        async def main():
            async with AsyncSandbox() as box:
                await box.run("wait")
        asyncio.run(main())
        """)
    running(bridge)
    process.send_signal(signal.SIGINT)
    status, _, err = finished(process)
    assert status == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert len(bridge.frames("close")) == 1
    ended(bridge)


def test_a_tool_that_hangs_does_not_keep_an_interrupted_program(bridge: Log) -> None:
    process = program("""
        import time
        from thermae import Sandbox
        def hangs() -> None:
            print("called", flush=True)
            time.sleep(1000)
        with Sandbox(tools=[hangs]) as box:
            box.run("call hangs {}")
        """)
    assert process.stdout is not None
    assert process.stdout.readline() == "called\n"
    process.send_signal(signal.SIGINT)
    assert finished(process)[0] == -signal.SIGINT


def test_a_killed_client_takes_its_bridge_along(bridge: Log) -> None:
    process = program("""
        from thermae import Sandbox
        with Sandbox() as box:
            list(box.batch(["wait"] * 100, concurrency=100))
        """)
    running(bridge, 100)
    process.kill()
    finished(process)
    ended(bridge)


def test_a_program_that_forgets_to_close_ends_all_the_same(bridge: Log) -> None:
    process = program("""
        from thermae import Sandbox
        box = Sandbox()
        print(box.run("print a").stdout)
        stream = box.stream("print b\\nwait")
        next(stream)
        """)
    assert finished(process) == (0, "a\n\n", "")
    ended(bridge)


FORKED = """
    import os, sys, warnings, gc
    warnings.simplefilter("error")
    from thermae import Sandbox, ForkedClientError
    box = Sandbox()
    print(box.run("print parent").stdout.strip(), flush=True)
    theirs = os.readlink(f"/proc/self/fd/{box._async._connection.transport._socket.fileno()}")
    child = os.fork()
    if child == 0:
        here = [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]
        assert theirs not in [os.readlink(f"/proc/self/fd/{fd}") for fd in here]
        for use in (lambda: box.run("print x"), lambda: box.sessions(), lambda: next(box.stream("print x"))):
            try:
                use()
            except ForkedClientError as error:
                assert "after the fork" in error.advice
            else:
                os._exit(1)
        box.close()
        del box, use
        gc.collect()
        with Sandbox() as own:
            print(own.run("print child").stdout.strip(), flush=True)
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    print(box.run("print parent again").stdout.strip())
    box.close()
    """


@of_the_bridge
def test_a_forked_child_is_refused_and_disturbs_nobody(bridge: Log) -> None:
    assert finished(program(FORKED, forks=True)) == (0, "parent\nchild\nparent again\n", "")
    assert len(bridge.frames("close")) == 2
    ended(bridge)


def test_a_child_that_leaves_the_blocks_of_its_parent_disturbs_nobody(bridge: Log) -> None:
    process = program(
        """
        import os, sys
        from thermae import Sandbox
        with Sandbox() as box, box.session("s") as session:
            session.run("print a")
            child = os.fork()
            if child == 0:
                sys.exit(5)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), session.run("print b").session.fresh)
        """,
        forks=True,
    )
    assert finished(process) == (0, "5 False\n", "")
    assert len(bridge.frames("close")) == 1


def test_the_end_of_a_forked_child_is_not_the_end_of_the_parents_bridge(bridge: Log) -> None:
    process = program(
        """
        import os
        from thermae import Sandbox
        with Sandbox() as box:
            stream = box.stream("print a\\nwait")
            next(stream)
            for _ in range(3):
                if os.fork() == 0:
                    os._exit(0)
                os.wait()
            stream.cancel()
            *_, result = stream
            print(result.status)
        """,
        forks=True,
    )
    assert finished(process) == (0, "cancelled\n", "")


def test_the_end_of_the_parent_is_the_end_of_its_bridge_even_if_a_child_lives(bridge: Log) -> None:
    process = program(
        """
        import os, sys
        from thermae import Sandbox
        box = Sandbox()
        box.run("print a")
        if os.fork() == 0:
            os.close(1), os.close(2)
            sys.stdin.read()
            os._exit(0)
        os._exit(0)
        """,
        forks=True,
    )
    assert process.stdin is not None
    until(lambda: bridge.frames("run"))
    ended(bridge)
    process.stdin.close()
    process.stdin = None
    finished(process)


def test_a_coroutine_that_forks_is_refused_in_the_child(bridge: Log) -> None:
    process = program(
        """
        import asyncio, os
        from thermae import AsyncSandbox, ForkedClientError
        async def main():
            async with AsyncSandbox() as box:
                await box.run("print a")
                if (child := os.fork()) == 0:
                    try:
                        await box.run("print b")
                    except ForkedClientError:
                        os._exit(7)
                    os._exit(1)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                print((await box.run("print c")).stdout.strip())
        asyncio.run(main())
        """,
        forks=True,
    )
    assert finished(process) == (0, "7\nc\n", "")


def test_multiprocessing_by_fork_and_by_spawn(bridge: Log, tmp_path: Any) -> None:
    (tmp_path / "work.py").write_text(
        "from thermae import Sandbox, ForkedClientError\n"
        "box = Sandbox()\n"
        "def inherited(n):\n"
        "    try:\n"
        "        return box.run(f'print {n}').stdout.strip()\n"
        "    except ForkedClientError:\n"
        "        return 'refused'\n"
        "def own(n):\n"
        "    with Sandbox() as mine:\n"
        "        return mine.run(f'print {n}').stdout.strip()\n"
    )
    process = program(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import multiprocessing, pickle, work
        if __name__ == "__main__":
            work.box.run("print a")
            for how in ("fork", "spawn"):
                with multiprocessing.get_context(how).Pool(2) as pool:
                    print(sorted(pool.map(work.own, range(4))), sorted(pool.map(work.inherited, range(2))))
                    pool.close()
                    pool.join()
            try:
                pickle.dumps(work.box)
            except TypeError as error:
                print(error)
            print(work.box.run("print end").stdout.strip())
        """,
        forks=True,
    )
    assert finished(process, 60) == (
        0,
        "['0', '1', '2', '3'] ['refused', 'refused']\n"
        "['0', '1', '2', '3'] ['0', '1']\n"
        "a sandbox can't be sent to another process: make one there\nend\n",
        "",
    )


def test_a_server_that_preloads_its_application(bridge: Log) -> None:
    """As gunicorn with --preload: the master imports (and here also uses) the application, then forks its workers."""
    process = program(
        """
        import os, signal, socket, sys
        from thermae import ForkedClientError, Sandbox
        # The application: one sandbox that the master has used, and one that is made when it is first needed.
        used, unused = Sandbox(), Sandbox()
        used.run("print master")
        def answer():
            try:
                return used.run("print a").stdout
            except ForkedClientError:
                return unused.run("print worker").stdout
        # The server.
        listener = socket.create_server(("127.0.0.1", 0))
        workers = []
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
                while True:
                    connection, _ = listener.accept()
                    connection.sendall(answer().encode())
                    connection.close()
            workers.append(pid)
        for _ in range(6):
            with socket.create_connection(listener.getsockname()) as connection:
                print(connection.recv(100).decode().strip())
        for pid in workers:
            os.kill(pid, signal.SIGTERM)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print(used.run("print master still").stdout.strip())
        """,
        forks=True,
    )
    assert finished(process) == (0, "worker\n" * 6 + "0\n" * 3 + "master still\n", "")
    ended(bridge)


@of_the_bridge
def test_the_bridge_is_in_a_session_of_its_own(bridge: Log) -> None:
    process = program("""
        import os, sys
        from thermae import Sandbox
        with Sandbox() as box:
            box.run("print a")
            pid = box._async._connection.transport._process.pid
            print(os.getsid(pid) == pid, flush=True)
        """)
    assert finished(process) == (0, "True\n", "")
    assert not children(os.getpid())
