"""Commands and files in live sessions."""

import asyncio
import copy
import dataclasses
import hashlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleets import FLEET, any_fleet
from helpers import finished, on_a_loop, program, until
from other_systems import OVER_HTTP

from thermae import AsyncSandbox, Sandbox, errors


def test_commands_run_beside_a_program(box: Sandbox) -> None:
    with box.session() as session:
        session.run("import os, time\nseen = []")
        wait = "while not os.path.exists('go'): time.sleep(0.01)\nprint(open('go').read())"
        results: list[str] = []
        running = threading.Thread(target=lambda: results.append(session.run(wait).stdout))
        running.start()
        assert session.exec("pwd; echo e >&2; exit 3").exit_code == 3
        assert session.files.exists("/workspace")
        with box.connect(session.name) as again:
            assert again.exec("pwd").text == "/workspace\n"
        session.files.write("go", "gone")
        running.join()
        assert results == ["gone\n"]
        assert session.run("print(seen)").stdout == "[]\n"


def test_how_commands_end(box: Sandbox) -> None:
    with box.session() as session:
        assert session.exec(["sh", "-c", "kill -9 $$"]).signal == 9
        late = session.exec("echo begin; sleep 60", timeout=0.3)
        assert (late.timed_out, late.stdout) == (True, b"begin\n")
        assert late.duration >= 0.3
        with pytest.raises(FileNotFoundError) as raised:
            session.exec(["no-such-program"])
        assert raised.value.filename == "no-such-program"
        session.files.write("plain", "no program")
        with pytest.raises(PermissionError):
            session.exec(["./plain"])
        with pytest.raises(FileNotFoundError) as nowhere:
            session.exec(["true"], cwd="nowhere")
        assert nowhere.value.filename == "nowhere"
        with pytest.raises(errors.OutputLimit):
            session.exec("yes", max_output="1MiB")
        assert session.exec("echo $A; pwd", cwd="/tmp", env={"A": "ä b"}).text == "ä b\n/tmp\n"
        assert session.exec("printf '\\377'; printf '\\376' >&2").stdout == b"\xff"
        assert session.exec(["cat"], input=b"\xff" * 3_000_000).stdout == b"\xff" * 3_000_000


def test_a_command_is_talked_to_and_killed(box: Sandbox) -> None:
    with box.session() as session:
        with session.popen(["cat"], stdin=True) as process:
            for n in range(20):
                process.stdin.write(b"%d\n" % n)
                assert next(process) == ("stdout", b"%d\n" % n)
            process.stdin.close()
            assert process.wait().ok
        with session.popen("trap 'echo caught; exit 4' TERM; echo on; while :; do sleep 0.01; done") as process:
            assert next(process).data == b"on\n"
            process.terminate()
            result = process.wait()
            assert (result.exit_code, result.stdout) == (4, b"caught\n")
        with session.popen("echo $$; exec sleep 60") as process:
            pid = next(process).data.decode().strip()
            assert session.exec(f"kill -0 {pid}").ok
            process.kill()
            assert process.wait().status == "cancelled"
        until(lambda: not session.exec(f"kill -0 {pid}").ok)
        with session.popen("echo $$; exec sleep 60") as process:
            pid = next(process).data.decode().strip()
        until(lambda: not session.exec(f"kill -0 {pid}").ok)


def test_what_a_command_leaves_lives_on(box: Sandbox) -> None:
    with box.session() as session:
        assert session.exec("(while [ ! -f go ]; do sleep 0.01; done; echo x > done) & echo left").text == "left\n"
        session.exec(["setsid", "sh", "-c", "(while [ ! -f go ]; do sleep 0.01; done; echo x > done2) &"])
        session.files.write("go", "")
        until(lambda: session.files.exists("done") and session.files.exists("done2"))


def test_files(box: Sandbox) -> None:
    with box.session() as session:
        files = session.files
        assert files.write("a/b.txt", "one\ntwo\n", parents=True) == 8
        assert session.run("print(open('a/b.txt').read(), end='')").stdout == "one\ntwo\n"
        assert files.append("a/b.txt", "three\n") == 14
        assert files.write_at("a/b.txt", 4, b"TWO") == 14
        assert files.read("a/b.txt", offset=4, length=3) == b"TWO"
        assert files.read_text("/workspace/a/b.txt") == "one\nTWO\nthree\n"
        files.write("run.sh", "#!/bin/sh\necho ran\n", permissions=0o755)
        assert session.exec(["./run.sh"]).text == "ran\n"
        files.write("run.sh", "#!/bin/sh\necho again\n")
        assert (session.exec(["./run.sh"]).text, files.stat("run.sh").permissions) == ("again\n", 0o755)
        session.exec("ln -s a/b.txt link; ln -s nowhere broken; mkfifo fifo; ln -s loop loop", check=True)
        assert (files.stat("link").kind, files.stat("link", follow=False).target) == ("file", "a/b.txt")
        assert files.real_path("link") == "/workspace/a/b.txt"
        assert files.real_path("broken/x", strict=False) == "/workspace/nowhere/x"
        assert [files.exists(one) for one in ("link", "broken", "loop", "a/b.txt/x")] == [True, False, False, False]
        files.write("link", "1\n2\n")
        assert files.read_text("a/b.txt") == "1\n2\n"
        kinds = {one.path: one.kind for one in files.list(depth=2)}
        assert kinds == {
            "a": "directory",
            "a/b.txt": "file",
            "artifacts": "directory",
            "broken": "link",
            "fifo": "fifo",
            "link": "link",
            "loop": "link",
            "run.sh": "file",
        }
        assert files.list("/workspace/a")[0].path == "/workspace/a/b.txt"
        assert (len(files.list(most=2)), files.list(most=2).cut) == (2, True)
        assert [*files.glob("**/*.txt")] == ["a/b.txt"]
        found = files.grep("^2", path="a")
        assert [(one.path, one.line, one.offset, one.text) for one in found] == [("a/b.txt", 2, 2, "2")]
        files.move("a/b.txt", "c")
        files.make_dir("a/x/y", parents=True)
        files.remove("a", recursive=True)
        assert not files.exists("a")


@pytest.mark.parametrize(
    ("kind", "do"),
    [
        (FileNotFoundError, "files.read('nothing')"),
        (FileNotFoundError, "files.write('nothing/x', 'x')"),
        (FileNotFoundError, "files.list('nothing')"),
        (FileExistsError, "files.write('file', 'x', exclusive=True)"),
        (FileExistsError, "files.make_dir('file', parents=True)"),
        (IsADirectoryError, "files.read('.')"),
        (IsADirectoryError, "files.write('.', 'x')"),
        (NotADirectoryError, "files.list('file')"),
        (NotADirectoryError, "files.write('file/x', 'x', parents=True)"),
        (PermissionError, "files.read('secret')"),
        (errors.FileError, "files.read('fifo')"),
        (errors.FileError, "files.write('/proc/version', 'x')"),
        (errors.FileError, "files.remove('full')"),
    ],
)
def test_what_the_kernel_refuses(box: Sandbox, kind: type[OSError], do: str) -> None:
    with box.session() as session:
        session.exec("touch file secret; chmod 0 secret; mkfifo fifo; mkdir -p full/x", check=True)
        with pytest.raises(kind) as raised:
            eval(do, {"files": session.files})
    assert isinstance(raised.value, errors.FileError)


@on_a_loop
async def test_cancelled_tasks_cancel_and_many_requests_run() -> None:
    async with AsyncSandbox(**any_fleet(2)) as box, box.session() as session:
        task = asyncio.create_task(session.exec("echo $$ > pid; exec sleep 60"))
        while not await session.files.exists("pid") or not (pid := await session.files.read_text("pid")):
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
        while (await session.exec(f"kill -0 {pid}")).ok:
            await asyncio.sleep(0.01)
        results = await asyncio.gather(*(session.exec(f"echo {n}") for n in range(100)))
        assert [one.text for one in results] == [f"{n}\n" for n in range(100)]


@on_a_loop
async def test_the_end_of_a_session_is_told_to_its_commands() -> None:
    async with AsyncSandbox(**any_fleet(2)) as box:
        session = box.session()
        process = await session.popen("echo on; sleep 60")
        await anext(process)
        async with await box.connect(session.name) as again:
            await again.close()
        with pytest.raises((errors.SessionLost, errors.SandboxLost)):
            await process.wait()
        with pytest.raises(errors.SessionLost):
            await session.exec("true")


def test_large_files_take_constant_memory(tmp_path: Path) -> None:
    # A fleet that is not the test's own has sandboxes with less room.
    size, most = (48 << 20, 24 << 20) if OVER_HTTP else (256 << 20, 48 << 20)
    options = any_fleet(2, disk="1GiB", memory="1GiB")
    source = f"""
    import hashlib, resource
    from thermae import Sandbox

    SIZE, MOST = {size}, {most >> 10}
    def pieces():
        piece = bytes(range(256)) * 4096
        for _ in range(SIZE // len(piece)):
            yield piece

    with Sandbox(**{options!r}) as box, box.session() as session:
        session.exec("true")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert session.files.write("large", pieces(), timeout=90) == SIZE
        digest = hashlib.sha256()
        for piece in session.files.stream("large", timeout=90):
            digest.update(piece)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(digest.hexdigest())
        assert grown < MOST, grown
    """
    status, out, err = finished(program(source), 100)
    assert (status, err) == (0, "")
    assert out == hashlib.sha256(bytes(range(256)) * (size >> 8)).hexdigest() + "\n"


@pytest.mark.fleet
@on_a_loop
async def test_commands_and_files_on_a_fleet() -> None:
    async def source() -> AsyncIterator[bytes]:
        for n in range(8):
            yield bytes([n]) * (1 << 20)

    async with AsyncSandbox(FLEET) as box:
        session = box.session()
        assert (await session.exec("echo hello; exit 3")).exit_code == 3
        assert await session.files.write("large", source(), timeout=90) == 8 << 20
        name = session.detach()
    async with AsyncSandbox(FLEET) as box, await box.connect(name) as session:
        size = 0
        async for piece in session.files.stream("large", timeout=90):
            size += len(piece)
        assert size == 8 << 20
        results = await asyncio.gather(*(session.exec(f"echo {n}") for n in range(50)))
        assert [one.text for one in results] == [f"{n}\n" for n in range(50)]
        await session.close()
        with pytest.raises(errors.SessionNotFound):
            await box.connect(name)


def test_a_file_that_only_a_session_has_is_told(box: Sandbox) -> None:
    with box.session() as session:
        session.files.write("only.csv", "a\n")
        lacking = "import pathlib\nopen(pathlib.Path('only.csv'))"
        note = f"'only.csv' is in the session {session.name}: run the program in that session."
        assert box.run(lacking).notes[0].endswith(note)
        assert note in box.run(lacking).for_model().text
        assert box.submit(lacking).result().notes[0].endswith(note)
        assert [len(done.result.notes) for done in box.batch([lacking, "open('nowhere')"], concurrency=1)] == [1, 0]
        with pytest.raises(errors.CodeRaised) as raised:
            box.run(lacking, check=True)
        assert raised.value.__notes__[0].endswith(note)
        assert session.run("open('nowhere')").notes == []
        with box.connect(session.name) as again:
            again.files.write("/session/other", "b")
            assert session.name in box.run("open('/session/other')").notes[0]
    assert box.run(lacking).notes == []


@on_a_loop
async def test_a_submitted_run_is_one_of_its_session() -> None:
    async with AsyncSandbox(**any_fleet(2)) as box, box.session() as session:
        run = await session.submit("x = 5\nopen('there', 'w').close()\nprint('made')")
        await run.result()
        assert (await session.run("print(x)")).stdout == "5\n"
        assert await session.files.exists("there")


def test_a_submitted_run_of_a_session_without_a_loop(box: Sandbox) -> None:
    with box.session() as session:
        assert session.submit("x = 5").result().session is not None
        assert session.run("print(x)").stdout == "5\n"


def test_a_result_becomes_a_dict(box: Sandbox) -> None:
    with box.session() as session:
        result = session.run("open('artifacts/a', 'w').write('x')\n7")
        made = dataclasses.asdict(result)
        assert (made["status"], made["value"]["text/plain"]) == ("succeeded", "7")
        assert made["artifacts"][0]["path"] == "/workspace/artifacts/a"
        assert copy.deepcopy(result).artifacts[0].read() == b"x"
