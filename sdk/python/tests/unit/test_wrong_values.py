"""What is wrong with a value is said by the name under which the caller gave it."""

import io
from pathlib import Path
from typing import Any

import pytest
from bridge_log import Log
from over_http import of_the_embedded_fleet

from thermae import Job, Sandbox
from thermae.errors import OutputLimit, WallTimeout

DEEP: list[Any] = []
for _ in range(200_000):
    DEEP = [DEEP]

# The options of a run, and the error.
RUNS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"timeout": "5"}, TypeError, "a time is a number of seconds, not '5'"),
    ({"memory": 1.5}, TypeError, r"a size is a whole number of bytes, or text such as '256MiB', not 1\.5"),
    ({"stdin": b"a"}, TypeError, r"^stdin can't be written as JSON: .*bytes"),
    (
        {"inputs": {"rows": {"a": [len]}}},
        TypeError,
        r"^inputs\['rows'\].a\[0\] has the type builtin_function_or_method",
    ),
    ({"inputs": {"x": float("nan")}}, ValueError, r"^inputs\['x'\] is nan, and JSON has no such number"),
    ({"inputs": {"x": DEEP}}, ValueError, r"^inputs\['x'\].*nested too deeply"),
    ({"env": {"A": "\ud800"}}, ValueError, r"^env\['A'\] has text that is not valid Unicode"),
    ({"files": {"a": 5}}, TypeError, r"^files\['a'\] is not text, .*: int"),
    ({"files": {"a": [1]}}, TypeError, r"^files\['a'\] is not text, .*: list"),
    ({"argv": "ls"}, TypeError, "argv is a list of texts"),
    ({"on_stdout": 5}, TypeError, "a callback is a function, not 5"),
]


@pytest.mark.parametrize(("options", "kind", "why"), RUNS)
def test_of_a_run(options: dict[str, Any], kind: type[Exception], why: str) -> None:
    with Sandbox() as box, pytest.raises(kind, match=why):
        box.run("" if "argv" in options else "print a", **options)


def test_of_the_code() -> None:
    with Sandbox() as box, pytest.raises(ValueError, match=r"^code has text that is not valid Unicode"):
        box.run("print \ud800")


def test_no_start_within_is_the_default() -> None:
    with Sandbox() as box:
        assert box.run("print a", timeout=5, start_within=None).stdout == "a\n"  # type: ignore[arg-type]


def test_an_async_callback_of_a_sync_sandbox() -> None:
    async def watch(text: str) -> None:
        """Nobody would await it."""

    with Sandbox() as box, pytest.raises(TypeError, match="AsyncSandbox awaits callbacks"):
        box.run("print a", on_stdout=watch)


@of_the_embedded_fleet
def test_of_the_embedded_fleet() -> None:
    with pytest.raises(TypeError, match="a list of names"):
        Sandbox(preload="numpy")
    wrong: tuple[Any, ...] = (1.5, "2", float("nan"))
    for count in wrong:
        for option in ("slots", "spares", "max_sessions"):
            with pytest.raises(TypeError, match=f"a whole number is needed, not {count!r}"):
                Sandbox(**{option: count})
    for package in (None, b"six", 5):
        with pytest.raises(ValueError, match=f"packages: {package!r} is not the name of a package"):
            Sandbox(packages=[package])  # type: ignore[list-item]


def test_empty_names_are_names() -> None:
    assert Job("print a", job_id="").id == ""
    with Sandbox() as box:
        assert box.session("").name == ""


@pytest.mark.parametrize("command", [Path("/bin/ls"), ["ls", Path("/")], None, b"ls", ["ls", 5]])
def test_of_a_command(command: Any) -> None:
    with (
        Sandbox() as box,
        box.session() as session,
        pytest.raises(TypeError, match="text, or a list of texts, without"),
    ):
        session.exec(command)


@pytest.mark.parametrize("content", [None, 5, {"a": 1}, {}])
def test_of_a_files_content(content: Any) -> None:
    with Sandbox() as box, box.session() as session:
        for do in (session.files.write, session.files.append):
            with pytest.raises(TypeError, match="content is text, bytes, a Path"):
                do("a", content)
        with pytest.raises(TypeError, match="pieces of bytes, not of str"):
            session.files.write("a", io.StringIO("x"))  # type: ignore[arg-type]


def test_of_standard_input() -> None:
    with Sandbox() as box, box.session() as session:
        process = session.popen(["cat"], stdin=True)
        with process, pytest.raises(TypeError, match="pieces of bytes, not of str"):
            process.stdin.write("text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("signal", "kind"), [("TERM", TypeError), (None, TypeError), (-5, ValueError), (65, ValueError)]
)
def test_of_a_signal(bridge: Log, signal: Any, kind: type[Exception]) -> None:
    with Sandbox() as box, box.session() as session:
        process = session.popen(["cat"], stdin=True)
        with process, pytest.raises(kind, match="a signal is a number"):
            process.send_signal(signal)
    assert not bridge.frames("signal")


def test_a_commands_errors_name_the_commands_own_options() -> None:
    from thermae import ExecResult

    for status, kind, option in (("timed_out", WallTimeout, "timeout="), ("output_limit", OutputLimit, "max_output=")):
        with pytest.raises(kind) as caught:
            ExecResult(status, None, None, b"", b"", 1.0, "r").raise_for_status()  # type: ignore[arg-type]
        assert option in caught.value.advice
        assert "limits." not in caught.value.advice
