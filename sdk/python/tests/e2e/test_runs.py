import asyncio
import hashlib
import logging
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fleets import SERVED, any_fleet
from helpers import on_a_loop, until
from other_systems import OVER_HTTP
from over_http import of_the_bridge, of_the_embedded_fleet

from thermae import (
    Approval,
    AsyncSandbox,
    Audit,
    InputFile,
    Job,
    Result,
    Sandbox,
    Session,
    Stdout,
    ToolCall,
    errors,
    tool,
)

OWN_FILE = """
import importlib.util, inspect, os, runpy, subprocess, sys, unittest
V = 3
def double(n):
    return 2 * n
class T(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(V), 6)
def test_triple():
    assert V == 3
if __name__ == "__main__" and "AGAIN" in os.environ:
    sys.exit(7)
if __name__ == "__main__":
    name = os.path.basename(__file__)
    print(open(__file__).read().count("import importlib"), inspect.getsource(double) in open(__file__).read())
    print(importlib.import_module(name[:-3]).V, runpy.run_path(__file__)["V"])
    print(subprocess.run([sys.executable, __file__], env={**os.environ, "AGAIN": "1"}).returncode)
    print(unittest.defaultTestLoader.discover(".", pattern=name).countTestCases())
    if importlib.util.find_spec("pytest"):
        import pytest
        assert pytest.main([__file__, "-q", "-p", "no:cacheprovider"]) == 0
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    for start in ("fork", "spawn", "forkserver"):
        with ProcessPoolExecutor(1, mp_context=get_context(start)) as pool:
            print(pool.submit(double, 4).result())
"""


def test_a_program_is_a_file(box: Sandbox) -> None:
    def check(result: Result) -> None:
        lines = [line for line in result.stdout.splitlines() if "passed" not in line and "%" not in line]
        assert [line for line in lines if line] == ["2 True", "3 3", "7", "1", "8", "8", "8"]

    check(box.run(OWN_FILE, check=True))
    with box.session() as session:
        for _ in range(2):
            check(session.run(OWN_FILE, check=True))
        assert session.run("print(inspect.getsource(double))", check=True).stdout.startswith("def double")
        assert [one.path for one in session.files.list()] == ["artifacts"]


def test_output_value_displays_and_usage(box: Sandbox) -> None:
    result = box.run("import sys\nprint('é')\nsys.stderr.write('e')\ndisplay([1])\n6 * 7")
    assert (result.status, result.stdout, result.stderr) == ("succeeded", "é\n", "e")
    assert (result.value, result.displays) == ({"text/plain": "42"}, [{"text/plain": "[1]"}])
    assert result.usage.wall_ms > 0
    assert result.limits is not None
    assert result.worker is not None
    assert box.run("import os; os.write(1, b'a\\xff')").stdout_bytes == b"a\xff"


def test_a_program_that_raises(box: Sandbox) -> None:
    result = box.run("x = 1\nraise ValueError('no')")
    assert result.status == "failed"
    assert result.error is not None
    assert (result.error.code, result.error.exception) == ("code_raised", "ValueError")
    assert "line 2" in (result.error.traceback or "")
    assert box.run("import sys; sys.exit(3)").exit_code == 3
    with pytest.raises(errors.CodeRaised):
        box.run("1 / 0", check=True)


def test_tools_are_called_and_checked(box: Sandbox) -> None:
    code = """
import asyncio
rows = await get_sales(region="East")
print(sum(row["amount"] for row in rows))
print(await asyncio.gather(later(n=1), later(n=2)))
for call in (lambda: later(n=3), lambda: get_sales(region=5), lambda: get_sales(nowhere=1)):
    try:
        await call()
    except (ToolError, TypeError) as error:
        print(type(error).__name__, str(error).split(":")[0])
print(get_sales.__doc__)
"""
    result = box.run(code, check=True)
    first, second, *refused, doc = result.stdout.splitlines()
    assert (first, second) == ("126", "[2, 3]")
    assert [one.split()[0] for one in refused] == ["ToolError", "ToolError", "TypeError"]
    assert doc == "Sales rows of one region and quarter."
    assert result.usage.tool_calls == 3


def test_ten_sync_tools_run_at_once_and_errors_cross_with_their_type(box: Sandbox) -> None:
    barrier = threading.Barrier(10, timeout=60)

    def together(n: int) -> int:
        barrier.wait()
        return n

    def fails() -> None:
        raise KeyError("secret path")

    code = """
import asyncio
print(await asyncio.gather(*(together(n=n) for n in range(10))))
try:
    await fails()
except KeyError as error:
    print(isinstance(error, ToolError), error.type, error)
"""
    result = box.run(code, tools=[together, fails], check=True)
    assert result.stdout == f"{list(range(10))}\nTrue KeyError 'secret path'\n"


def test_large_arguments_and_results_of_tools(box: Sandbox) -> None:
    def echo(text: str) -> str:
        return text

    size = 3_000_000
    code = f"x = 'é' * {size}\ny = await echo(text=x)\nprint(len(y), x == y)"
    assert box.run(code, tools=[echo], check=True).stdout == f"{size} True\n"


def test_events_come_while_the_code_runs(box: Sandbox) -> None:
    seen = threading.Event()

    @tool
    def wait_until_seen() -> bool:
        return seen.wait(20)

    kinds = []
    for event in box.stream("print('early', flush=True)\nprint(await wait_until_seen())", tools=[wait_until_seen]):
        kinds.append(type(event).__name__)
        if isinstance(event, Stdout) and "early" in event.text:
            seen.set()
        if isinstance(event, Result):
            assert event.stdout == "early\nTrue\n"
    assert kinds[:2] == ["Accepted", "Started"]
    assert kinds[-1] == "Result"
    assert "ToolCall" in kinds


def test_callbacks(box: Sandbox) -> None:
    text: list[str] = []
    shown: list[Any] = []
    calls: list[ToolCall] = []
    code = "print('a'); display(1); await get_sales(region='x'); print('b')"
    result = box.run(code, on_stdout=text.append, on_display=shown.append, on_tool_call=calls.append)
    assert "".join(text) == result.stdout == "a\nb\n"
    assert shown == [{"text/plain": "1"}]
    assert [(one.tool, one.arguments) for one in calls] == [("get_sales", {"region": "x"})]


def test_a_tool_s_time_out_is_always_the_same_error(box: Sandbox) -> None:
    release = threading.Event()

    @tool(timeout=0.1)
    def hangs() -> None:
        release.wait(600)

    @tool(timeout=0.1)
    async def waits(turn: int) -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            raise OSError("cancelled") from None

    code = """
import asyncio
def told(error):
    both = isinstance(error, TimeoutError) and isinstance(error, ToolError)
    return both, type(error).__name__, error.type, str(error).split(" ", 2)[2]
calls = [hangs() for _ in range(8)] + [waits(n) for n in range(8)]
for error in await asyncio.gather(*calls, return_exceptions=True):
    print(told(error))
"""
    result = box.run(code, tools=[hangs, waits], check=True)
    release.set()
    late = "(True, 'TimeoutError', 'TimeoutError', 'was not answered within 0.1 s')"
    assert result.stdout.splitlines() == [late] * 16


def test_a_function_that_approves_is_asked_about_every_call(box: Sandbox) -> None:
    made: list[int] = []
    asked: list[tuple[str, int]] = []

    def pay(amount: int) -> None:
        made.append(amount)

    def approve(call: Approval) -> bool:
        assert call.arguments is not None
        asked.append((call.tool, call.arguments["amount"]))
        return bool(call.arguments["amount"] < 10)

    code = """
for n in (1, 50, 2):
    try:
        await pay(amount=n)
    except ToolError as error:
        print(str(error).split(":")[0])
"""
    named = tool(pay, name="bank/pay")
    with Sandbox(**any_fleet(slots=1), tools=[named, pay], approve=approve) as asks, asks.session() as session:
        if OVER_HTTP and not SERVED:
            # The key of the tests may not approve, and the program is told so.
            with pytest.raises(errors.ScopeMissing):
                asks.run(code)
            return
        assert asks.run(code).stdout == "approval_denied\n"
        assert session.run(code.replace("pay(", "bank_pay(")).stdout == "approval_denied\n"
    assert asked == [(name, n) for name in ("pay", "bank/pay") for n in (1, 50, 2)]
    assert made == [1, 2, 1, 2]


def test_the_audit_log_is_told(box: Sandbox) -> None:
    told: list[Audit] = []
    assert box.run("await get_sales(region='x')", on_audit=told.append).ok
    first, second = told
    assert (first.what, first.tool, first.arguments, first.result) == ("call", "get_sales", {"region": "x"}, None)
    assert (second.what, second.call, second.result) == ("end", first.call, "ok")
    assert second.seconds is not None
    assert second.seconds >= 0


def test_limits_hold_and_are_told(box: Sandbox) -> None:
    assert box.run("while True: pass", timeout=0.3).status == "timed_out"
    assert box.run("print('x' * 5000)", output=1000).status == "output_limit"
    assert box.run("x = bytearray(200 << 20)", memory="64MiB").status == "out_of_memory"
    assert box.run("while True: pass", cpu=0.2).status == "timed_out"
    with pytest.raises(errors.LimitTooHigh) as raised:
        box.run("print(1)", timeout=10_000_000)
    assert raised.value.request_id
    with pytest.raises(errors.SchemaViolation):
        box.run("print(1)", job_id="not an id")


def test_files_go_in_and_artifacts_come_out(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "local.bin").write_bytes(b"\x00\xff")
    code = """
import os
data = open("a/b.txt").read() + repr(open("c.bin", "rb").read()) + str(os.access("run.sh", os.X_OK))
os.makedirs("artifacts/sub")
open("artifacts/sub/out.txt", "w").write(data)
open("artifacts/large.bin", "wb").write(bytes(range(256)) * 8192)
"""
    files: Any = {"a/b.txt": "text", "c.bin": tmp_path / "local.bin", "run.sh": InputFile("ls", executable=True)}
    result = box.run(code, files=files, env={"A": "b"}, check=True)
    large, small = result.artifacts
    assert small.read() == b"textb'\\x00\\xff'True"
    assert large.save(tmp_path).stat().st_size == large.size == 2 << 20
    assert hashlib.sha256((tmp_path / "large.bin").read_bytes()).hexdigest() == large.sha256
    again = box.run("print(open('in').read())", files={"in": small}, check=True)
    assert again.stdout == "textb'\\x00\\xff'True\n"
    inline = box.run(
        "import os; os.makedirs('artifacts', exist_ok=True); open('artifacts/x', 'w').write('y')",
        inline_artifacts=True,
    )
    assert inline.artifacts[0].inline is not None
    assert inline.artifacts[0].read() == b"y"


def test_large_files_and_inputs_need_no_care(tmp_path: Path) -> None:
    if OVER_HTTP and not SERVED:
        pytest.skip("a fleet of RabbitMQ takes jobs of 1 MiB")
    (tmp_path / "rows.csv").write_text("1,2\n" * 500_000)
    binary = bytes(range(256)) * (40 << 12)
    code = """
import hashlib
print(sum(1 for _ in open("rows.csv")), hashlib.sha256(open("a.bin", "rb").read()).hexdigest())
print(len(rows), rows[-1], len(text), len(open("small/9").read()))
"""
    files: Any = {"rows.csv": tmp_path / "rows.csv", "a.bin": binary}
    files |= {f"small/{n}": "x" * 60_000 for n in range(40)}
    inputs = {"rows": list(range(500_001)), "text": "é" * 1_000_000}
    with Sandbox(**any_fleet(slots=1, disk="256MiB")) as box:
        if SERVED:
            files["a.bin"] = binary = binary[: 20 << 20]
        result = box.run(code, files=files, inputs=inputs, check=True)
        assert result.stdout.split() == [
            *("500000", hashlib.sha256(binary).hexdigest()),
            *("500001", "500000", "1000000", "60000"),
        ]
        with box.session() as session:
            assert session.run("print(len(rows))", inputs={"rows": [0] * 300_000}, check=True).stdout == "300000\n"
        with pytest.raises(errors.FilesTooLarge, match="have more than 16 MiB together"):
            box.run("1", inputs={"text": "x" * (17 << 20)}, check=True)


def test_bash_and_standard_input(box: Sandbox) -> None:
    assert box.run("cat; exit 4", language="bash", stdin="in").stdout == "in"
    assert box.run(argv=["printf", "%s|", "two words", "$HOME"]).stdout == "two words|$HOME|"
    assert box.run("print(input())", stdin="line\n").stdout == "line\n"


def test_sessions_keep_variables(box: Sandbox) -> None:
    with box.session() as session:
        session.run("x = 41")
        result = session.run("print(x + 1)")
        assert result.stdout == "42\n"
        assert result.session is not None
        assert not result.session.fresh
        assert session.run("await get_sales(region='a')").ok
        session.keepalive()
        name = session.name
        with box.connect(name) as again:
            assert again.run("print(x)").stdout == "41\n"
        assert session.run("print(x)").stdout == "41\n"
    with pytest.raises(errors.SessionNotFound):
        box.connect(name)
    with box.session("mine") as session:
        session.run("y = 1")
        session.detach()
    with box.session("mine", reset=True) as session:
        assert session.run("print('y' in globals())").stdout == "False\n"
        assert session.run("y = 2").ok
        assert session.run("print(y)").stdout == "2\n"
    with box.session(language="bash") as shell:
        shell.run("cd /tmp; A=5")
        assert shell.run("echo $A $PWD").stdout == "5 /tmp\n"
        shell.keepalive()
    # The first program decides the language; to close the session, nobody needs to know it.
    with box.session() as shell:
        assert shell.run("A=5; echo $A", language="bash").stdout == "5\n"
        assert shell.run("echo $A", language="bash").stdout == "5\n"
    with pytest.raises(errors.SessionNotFound):
        box.connect(shell.name)


@on_a_loop
async def test_a_cancelled_run_keeps_its_session() -> None:
    async with AsyncSandbox(**any_fleet(2)) as box, box.session() as session:
        await session.run("x = 41; open('kept', 'w').write('file')", check=True)

        async def kept() -> bool:
            return (await session.run("print(x, open('kept').read())")).stdout == "41 file\n"

        forever = "print('on', flush=True)\nwhile True: pass"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await session.run(forever)
        assert await kept()
        async with session.stream(forever) as stream:
            async for event in stream:
                if isinstance(event, Stdout):
                    break
        assert await kept()
        begun = asyncio.Event()
        task = asyncio.create_task(session.run(forever, on_stdout=lambda _: begun.set()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await kept()
        begun.clear()
        job = uuid4().hex
        task = asyncio.create_task(session.run(forever, job_id=job, on_stdout=lambda _: begun.set()))
        await begun.wait()
        assert await box.cancel(job)
        result = await task
        assert (result.status, result.session is not None and result.session.alive) == ("cancelled", True)
        assert result.error is not None
        assert "keeps its variables" in result.error.message
        assert await kept()
        # A run that is cancelled before it begins leaves a name for the next one.
        for _ in range(5):
            other = box.session()
            task = asyncio.create_task(other.run(forever))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await other.run("print(1)")).stdout == "1\n"
            await other.close()


def is_gone(session: Session) -> bool:
    """Whether the session is gone after it was idle for a while."""
    time.sleep(0.5)
    try:
        session.run("print(x)")
    except errors.SessionExpired:
        return True
    return False


def test_a_session_that_was_idle_for_too_long_is_told(box: Sandbox) -> None:
    with box.session(idle=0.2) as session:
        session.run("x = 1")
        until(lambda: is_gone(session))
    with box.session(if_gone="new") as session:
        session.run("x = 1")
        assert session.run("import os; os._exit(1)").status == "failed"
        result = session.run("print('x' in globals())")
        assert result.session is not None
        assert (result.session.fresh, result.stdout) == (True, "False\n")


@of_the_embedded_fleet
def test_a_new_session_takes_the_place_of_the_one_used_longest_ago(tmp_path: Path) -> None:
    with Sandbox(slots=2, max_sessions=2, session_min_idle=0, store=tmp_path) as box:
        first, second, third = (box.session(name) for name in ("first", "second", "third"))
        for session in (first, second):
            session.run("x = 1; open('kept', 'w').close()", check=True)
        assert first.run("print(x)").stdout == "1\n"
        third.run("x = 3", check=True)
        with pytest.raises(errors.SessionEvicted):
            second.run("print(x)")
        assert (first.run("print(x)").stdout, third.run("print(x)").stdout) == ("1\n", "3\n")
        again = box.session("second", if_gone="new")
        look = "import os; print('x' in dir(), os.path.exists('kept'))"
        assert again.run(look, check=True).stdout == "False True\n"
    with Sandbox(slots=1, max_sessions=1) as box, box.session() as session:
        session.run("x = 1", check=True)
        with pytest.raises(errors.SessionLimit, match="max_sessions"):
            box.session().run("x = 2", check=True)
        assert session.run("print(x)").stdout == "1\n"


def test_live_sessions_are_listed(box: Sandbox) -> None:
    with box.session("listed") as session:
        session.run("x = 1")
        until(lambda: "listed" in [one.id for one in box.sessions()])


def test_a_batch(box: Sandbox) -> None:
    batch = box.batch([Job(f"print({n} ** 2)") for n in range(200)], concurrency=8)
    assert {one.index: one.result.stdout for one in batch} == {n: f"{n**2}\n" for n in range(200)}
    assert batch.progress.statuses == {"succeeded": 200}


def test_idempotency(box: Sandbox) -> None:
    first = box.run("import random; print(random.random())", job_id="once")
    assert box.run("import random; print(random.random())", job_id="once").stdout == first.stdout
    with pytest.raises(errors.IdConflict):
        box.run("print(2)", job_id="once")


@on_a_loop
async def test_a_thousand_runs_at_once() -> None:
    async with AsyncSandbox(**any_fleet(4)) as box:
        results = await asyncio.gather(*(box.run(f"print({n})") for n in range(1000)))
    assert [one.stdout for one in results] == [f"{n}\n" for n in range(1000)]


@on_a_loop
async def test_a_cancelled_task_frees_its_slot() -> None:
    async with AsyncSandbox(**any_fleet(1)) as box:
        await box.run("print(1)")
        begun = asyncio.Event()
        tasks = [
            asyncio.create_task(box.run("print(1, flush=True)\nwhile True: pass", on_stdout=lambda _: begun.set()))
        ]
        await begun.wait()
        # More than any fleet of these tests has slots.
        tasks += [asyncio.create_task(box.run("while True: pass")) for _ in range(12)]
        while len(box.under_way) < len(tasks):
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(60):
            assert (await box.run("print(2)")).stdout == "2\n"
        job = asyncio.create_task(box.run("while True: pass", job_id="mine"))
        while not await box.cancel("mine"):
            await asyncio.sleep(0.01)
        assert (await job).status == "cancelled"


@of_the_embedded_fleet
def test_options_of_the_embedded_fleet() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        Path(folder, "rows.csv").write_text("a,b\n")
        options_hold(folder)


def options_hold(folder: str) -> None:
    options: Any = {"slots": 1, "spares": 1, "memory": "128MiB", "cpu": 5, "disk": "32MiB", "wall": 20, "preload": []}
    with Sandbox(python=sys.executable, datasets={"sales": folder}, **options) as box:
        result = box.run("print(open('/data/sales/rows.csv').read(), end='')")
        assert result.stdout == "a,b\n"
        assert result.limits is not None
        assert (result.limits.wall_ms, result.limits.cpu_ms, result.limits.memory_bytes) == (20_000, 5000, 128 << 20)
        assert box.facts["embedded"] is True
        assert box.run("import pydantic; print('here')").stdout == "here\n", "it is this process's interpreter"
        assert box.run("open('/workspace/x', 'wb').write(bytes(64 << 20))").status == "failed"


@of_the_embedded_fleet
def test_options_that_cant_be_used_are_told() -> None:
    with pytest.raises(errors.ThermaeError, match="slots") as raised, Sandbox(slots=0):
        pass
    assert raised.value.code == "bad_option"
    with pytest.raises(errors.ThermaeError, match="nowhere"), Sandbox(datasets={"d": "/nowhere"}):
        pass
    with pytest.raises(errors.ThermaeError), Sandbox(python="/does/not/exist"):
        pass
    with pytest.raises(errors.ThermaeError, match=r"bad_url|broker_denied") as raised:
        Sandbox("amqp://me:hush@host:port").run("print(1)")
    assert "hush" not in str(raised.value)


@of_the_bridge
def test_the_log_of_the_bridge_is_python_s(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THERMAE_LOG", "debug")
    with caplog.at_level(logging.DEBUG, "thermae.bridge"), Sandbox(slots=1) as box:
        box.run("print(1)")
    assert len([one for one in caplog.records if one.name == "thermae.bridge"]) > 3


def test_a_notebook_runs_code() -> None:
    async def cell() -> list[str]:
        with Sandbox(**any_fleet(1)) as box:
            first = box.run("print('sync')").stdout
        async with AsyncSandbox(**any_fleet(1)) as other:
            return [first, (await other.run("print('async')")).stdout]

    assert asyncio.run(cell()) == ["sync\n", "async\n"]
