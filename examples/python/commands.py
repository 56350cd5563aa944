"""Commands and files beside a session's programs: what an agent needs to work on a project.

It prints:

    FAIL: test_add (test_calc.TestCalc.test_add)
    calc.py:2: return a - b
    exit status 0
    build: step 1
    build: step 2
    ['calc.py', 'log/build.txt', 'test_calc.py']
"""

from thermae import Sandbox

CODE = "def add(a, b):\n    return a - b\n"
TEST = """\
import unittest
from calc import add

class TestCalc(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)
"""
TESTS = ["python3", "-B", "-m", "unittest", "test_calc"]

with Sandbox() as box, box.session() as session:
    files = session.files
    files.write("calc.py", CODE)
    files.write("test_calc.py", TEST)
    result = session.exec(TESTS, timeout=30)
    print(next(line for line in result.stderr_text.splitlines() if line.startswith("FAIL")))

    for match in files.grep(r"\breturn\b", glob="*.py"):
        print(f"{match.path}:{match.line}: {match.text.strip()}")
    files.write("calc.py", files.read_text("calc.py").replace("a - b", "a + b"))
    print("exit status", session.exec(TESTS, timeout=30).exit_code)

    files.make_dir("log")
    with session.popen("for n in 1 2; do echo step $n | tee -a log/build.txt; done") as build:
        for _, data in build:
            for line in data.decode().splitlines():
                print("build:", line)
    print([*files.glob("**/*.*")])
