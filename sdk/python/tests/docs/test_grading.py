"""No cheat of a submission makes the example `grading.py` give it a grade that it has not earned."""

import importlib.util
import json
from types import SimpleNamespace
from typing import Any

import pytest
from docs.snippets import EXAMPLES
from outcomes import result

from thermae import Job, Sandbox

_SPEC = importlib.util.spec_from_file_location("grading", EXAMPLES / "grading.py")
assert _SPEC is not None
assert _SPEC.loader is not None
grading: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(grading)

JOINED = "{submission}\n\nassert [fib(n) for n in [30, 2, 7]] == {answers}"
"""A grader by exit status, with the submission in its own text."""

INSIDE = """
expected = {answers}
exec(compile(submission, "submission.py", "exec"), names := {{"__name__": "submission"}})
import json
"right" if json.dumps([names["fib"](n) for n in [30, 2, 7]]) == json.dumps(expected) else "wrong"
"""
"""A grader that compares in the sandbox."""

CHEATS = {
    "SystemExit": "raise SystemExit(0)",
    "SystemExit when called": "def fib(n): raise SystemExit",
    "os._exit": "import os\ndef fib(n): os._exit(0)",
    "a signal": "import os, signal\nsignal.signal(15, lambda *_: os._exit(0))\ndef fib(n): os.kill(os.getpid(), 15)",
    "exec of another program": "import os, sys\ndef fib(n): os.execv(sys.executable, [sys.executable, '-c', ''])",
    "__eq__": grading.EQUALS_ANYTHING + "def fib(n): return Same(7)",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef fib(n): return 0",
    "excepthook": "import os, sys\nsys.excepthook = lambda *_: os._exit(0)\ndef fib(n): return 0",
    "a thread": "import os, threading\ndef fib(n):\n    threading.Thread(target=os._exit, args=[0]).start()\n"
    "    threading.Event().wait()",
    "a patched function": "import json\njson.dumps = lambda *_: ''\ndef fib(n): return 0",
    "a module of its own": "import sys, types\nsys.modules['json'] = types.SimpleNamespace(dumps=lambda *_: '')\n"
    "def fib(n): return 0",
    "the expected answers": "import sys\nrest = iter(sys._getframe(1).f_globals.get('expected', []))\n"
    "def fib(n): return next(rest)",
    "a forged value": "import sys\ndef fib(n):\n    frame = sys._getframe()\n"
    "    while type(own := frame.f_locals.get('self')).__name__ != 'Harness': frame = frame.f_back\n"
    "    encode = frame.f_globals['encode']\n"
    '    own.report = lambda how, code: encode({"op": "done", "how": "ok", "value": {"text/plain": "\'right\'"}})\n',
    "a forged message": "import json, os, struct\ndef fib(n):\n"
    '    data = json.dumps({"op": "done", "how": "ok", "value": {"text/plain": "\'right\'"}}).encode()\n'
    "    for fd in map(int, os.listdir('/proc/self/fd')):\n        try:\n"
    "            if fd > 2 and os.readlink(f'/proc/self/fd/{fd}').startswith('socket:'):\n"
    "                os.write(fd, struct.pack('<I', len(data)) + data)\n"
    "        except OSError: pass\n    os._exit(0)",
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_works_elsewhere(cheat: str) -> None:
    """Each one gets through a grader that believes the exit status, or what the sandbox says about itself."""
    answers = [grading.fib(n) for n in (30, 2, 7)]
    code = CHEATS[cheat]
    with Sandbox(slots=1) as box:
        joined = box.run(JOINED.format(submission=code, answers=answers))
        inside = box.run(INSIDE.format(answers=answers), inputs={"submission": code})
    assert joined.ok or (inside.value or {}).get("text/plain") == "'right'"


def test_no_cheat_is_right() -> None:
    honest = {"honest": grading.RIGHT, "wrong": "def fib(n): return n", "fails": "1 / 0"}
    with Sandbox(slots=2) as box:
        found = dict(grading.grades(box, {**honest, **CHEATS}))
    assert [found.pop(name) for name in honest] == ["right", "wrong", "failed"]
    assert found.keys() == CHEATS.keys()
    assert set(found.values()) <= {"wrong", "failed"}, found


@pytest.mark.parametrize(
    "text", ["[0, 1, True]", "[0, 1, 1.0]", "[0, 1]", "[0, 1, 1, 2]", "(0, 1, 1)", "'[0, 1, 1]'", "[" * 100_000, ""]
)
def test_an_answer_that_only_looks_right(text: str) -> None:
    assert grade(value={"text/plain": text}) == "wrong"
    assert grade(value={"text/plain": "[0, 1, 1]"}) == "right"


def grade(**outcome: Any) -> str | None:
    """The grade of a submission of which three answers are asked, by how its run ended."""
    found: str | None = grading.grade(result(**outcome), [0, 1, 1])
    return found


def failed(status: str, code: str, **more: Any) -> dict[str, Any]:
    return {"status": status, "error": {"code": code, "message": ""}, **more}


def test_the_exit_status_is_no_verdict() -> None:
    value = {"text/plain": "[0, 1, 1]"}
    assert grade(exit_code=0) == "failed"
    assert grade(exit_code=0, value=value) == "right"
    assert grade(**failed("failed", "code_exited", exit_code=1, value=value)) == "right"
    assert grade(**failed("failed", "code_raised")) == "failed"


def test_what_is_not_the_submissions_doing_is_no_verdict() -> None:
    value = {"text/plain": "[0, 1, 1]"}
    for status, code in (
        ("lost", "worker_lost"),
        ("rejected", "no_worker"),
        ("cancelled", "cancelled"),
        ("timed_out", "wall_timeout"),
        ("a status of later", "unknown"),
    ):
        assert grade(**failed(status, code)) is None
        assert grade(**failed(status, code, value=value)) is None
    for status, code in (
        ("timed_out", "cpu_timeout"),
        ("out_of_memory", "out_of_memory"),
        ("output_limit", "output_limit"),
    ):
        assert grade(**failed(status, code)) == status


class Flaky:
    """A sandbox that loses the first runs of each submission."""

    def __init__(self, losses: int) -> None:
        self.losses = losses
        self.runs = 0

    def batch(self, jobs: list[Job], *, concurrency: int) -> Any:
        self.runs += 1
        for index, job in enumerate(jobs):
            questions: Any = job.options["inputs"]["questions"]
            value = {"text/plain": json.dumps([grading.fib(n) for n in questions])}
            lost = failed("lost", "worker_lost")
            outcome = lost if self.runs <= self.losses else {"value": value}
            yield SimpleNamespace(index=index, job=job, result=result(**outcome))


def test_a_run_without_a_verdict_is_repeated_twice() -> None:
    for losses, runs, verdict in ((0, 1, "right"), (2, 3, "right"), (3, 3, "no verdict")):
        box = Flaky(losses)
        assert list(grading.grades(box, {"a": "", "b": ""})) == [("a", verdict), ("b", verdict)]
        assert box.runs == runs
