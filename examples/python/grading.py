"""Grades a hundred small submissions of students in a batch, with progress and a table.

Some are wrong, some raise, one never ends, and one takes all memory. None of them harms the others.

It prints:

    graded 25 of 100
    graded 50 of 100
    graded 75 of 100
    graded 100 of 100
    grade           students
    right                 80
    wrong                 10
    failed                 8
    timed_out              1
    out_of_memory          1
"""

from collections import Counter
from collections.abc import Iterator

from thermae import Job, Result, Sandbox

TASK = "assert [fib(n) for n in range(10)] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34], 'wrong numbers'"


def submissions() -> Iterator[str]:
    """What the students wrote."""
    for student in range(100):
        match student:
            case 41:
                yield "def fib(n):\n    while True: pass"
            case 42:
                yield "numbers = []\nwhile True: numbers.append(bytearray(1 << 20))"
            case _ if student % 10 == 3:
                yield "def fib(n):\n    return n"
            case _ if student % 11 == 7:
                yield "def fib(n):\n    return fibonacci(n)"
            case _:
                yield "def fib(n):\n    a, b = 0, 1\n    for _ in range(n): a, b = b, a + b\n    return a"


def grade(result: Result) -> str:
    """The grade of one submission."""
    if result.ok:
        return "right"
    if result.error is not None and result.error.exception == "AssertionError":
        return "wrong"
    return result.status


jobs = [
    Job(f"{code}\n\n{TASK}", labels={"student": str(student)}, timeout=2, memory="128MiB")
    for student, code in enumerate(submissions())
]
grades: Counter[str] = Counter()

with Sandbox() as box:
    batch = box.batch(jobs, concurrency=16)
    for done in batch:
        grades[grade(done.result)] += 1
        if batch.progress.done % 25 == 0:
            print(f"graded {batch.progress.done} of {batch.progress.total}")

print(f"{'grade':<15} {'students':>8}")
for name, students in sorted(grades.items(), key=lambda one: (-one[1], one[0] != "timed_out")):
    print(f"{name:<15} {students:>8}")
