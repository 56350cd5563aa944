"""Grades a hundred small submissions of students in a batch, with progress and a table.

Some are wrong, some raise, one never ends, one takes all memory, and some cheat. None of them harms the others.

A submission and its test are two programs. The test gets the submission as an input, runs it, calls it, and gives the
answers as its value. The right answers never enter the sandbox: this program compares. A run that ends without a value
has no right answers, whatever its exit status is.

It prints:

    graded 25 of 100
    graded 50 of 100
    graded 75 of 100
    graded 100 of 100
    grade           students
    right                 75
    wrong                 13
    failed                10
    timed_out              1
    out_of_memory          1
"""

import random
from collections import Counter
from collections.abc import Iterator

from thermae import Job, Result, Sandbox

TEST = """
names = {"__name__": "submission"}
exec(compile(submission, "submission.py", "exec"), names)
[names["fib"](n) for n in questions]
"""

RIGHT = """
def fib(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
"""
EQUALS_ANYTHING = """
class Same(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
def fib(n): return Same(7)
"""
OWN_VERDICT = """
import builtins, sys
sys.stdout.write("right")
builtins.AssertionError = builtins.compile = builtins.exec = None
def fib(n): return "right"
"""
KNOWS_THE_FIRST_TEN = "def fib(n):\n    return [0, 1, 1, 2, 3, 5, 8, 13, 21, 34][n % 10]"


def all_submissions() -> dict[str, str]:
    """The submissions, by the students' numbers. The others are right."""
    found = dict.fromkeys(map(str, range(100)), RIGHT)
    found |= dict.fromkeys(map(str, range(7, 100, 11)), "def fib(n):\n    raise NotImplementedError('no time')")
    found |= dict.fromkeys(map(str, range(3, 100, 10)), "def fib(n):\n    return n")
    return found | {
        "21": "def fib(n):\n    while True: pass",
        "42": "numbers = []\nwhile True: numbers.append(bytearray(1 << 20))",
        "44": "raise SystemExit(0)",
        "45": "import os\ndef fib(n): os._exit(0)",
        "46": EQUALS_ANYTHING,
        "48": OWN_VERDICT,
        "49": KNOWS_THE_FIRST_TEN,
    }


def fib(n: int) -> int:
    """What a right submission answers."""
    first, second = 0, 1
    for _ in range(n):
        first, second = second, first + second
    return first


def grade(result: Result, answers: list[int]) -> str | None:
    """The grade of a submission. `None` if its run says nothing about it."""
    match result.status:
        case "succeeded" | "failed":
            if result.value is None:
                return "failed"
            # The texts are compared: `True` and `1.0` are not `1`, and nothing that a submission chose is parsed.
            return "right" if result.value.get("text/plain") == repr(answers) else "wrong"
        case "timed_out" if result.error is None or result.error.code != "cpu_timeout":
            return None  # The clock ended it: a busy machine can be the reason.
        case "timed_out" | "out_of_memory" | "output_limit":
            return result.status
        case _:
            return None  # It never ran, was lost or was cancelled.


def grades(box: Sandbox, submissions: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Students and their grades. A run without a verdict is repeated, at most twice."""
    waiting = dict(submissions)
    for _ in range(3):
        if not waiting:
            return
        questions = random.sample(range(60), 10)  # A table of known answers is of no use.
        answers = [fib(n) for n in questions]
        students = list(waiting)
        jobs = [
            Job(
                TEST,
                inputs={"submission": waiting[student], "questions": questions},
                cpu=1.0,
                timeout=60.0,
                memory="128MiB",
            )
            for student in students
        ]
        for done in box.batch(jobs, concurrency=16):
            if (verdict := grade(done.result, answers)) is not None:
                del waiting[students[done.index]]
                yield students[done.index], verdict
    yield from ((student, "no verdict") for student in waiting)


def main() -> None:
    """Grades all submissions."""
    counts: Counter[str] = Counter()
    with Sandbox() as box:
        for _student, verdict in grades(box, all_submissions()):
            counts[verdict] += 1
            if counts.total() % 25 == 0:
                print(f"graded {counts.total()} of 100")

    print(f"{'grade':<15} {'students':>8}")
    for name, students in sorted(counts.items(), key=lambda one: (-one[1], one[0] != "timed_out")):
        print(f"{name:<15} {students:>8}")


if __name__ == "__main__":
    main()
