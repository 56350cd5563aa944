"""Runs one module of CPython's own tests in this process and tells how each of its cases went.

The same text is the program of a job and a script of the plain interpreter: what differs between the two is the sandbox.
In the environment: CASES_MODULE (`test_json`), CASES_SKIP (a JSON list of patterns of case names that neither side runs) and,
outside, CASES_REPORT (the file that takes the report). A sandbox displays the report instead.
"""

import fnmatch
import importlib
import json
import os
import sys
import traceback
import unittest

RANK = {"passed": 0, "skipped": 1, "failed": 2}
LONGEST = 6000  # Characters of one failure's traceback.


class Cases(unittest.TestResult):
    """Keeps one word a case. A name that occurs twice gets the worse one."""

    def __init__(self, skip):
        super().__init__()
        self.skip, self.found, self.why = skip, {}, {}
        self.log = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")

    def say(self, text):
        try:
            self.log.write(text + "\n")
            self.log.flush()
        except OSError:
            pass  # A test closed it.

    def note(self, test, how, why=""):
        name = named(test)
        if how == "failed":
            self.say("FAILED %s\n%s" % (name, why))
        if RANK[how] >= RANK.get(self.found.get(name), -1):
            self.found[name] = how
            if why:
                self.why[name] = why[-LONGEST:]

    def startTest(self, test):
        super().startTest(test)
        self.say(named(test))

    def addSuccess(self, test):
        self.note(test, "passed")

    def addExpectedFailure(self, test, err):
        self.note(test, "passed")

    def addUnexpectedSuccess(self, test):
        self.note(test, "failed", "unexpected success")

    def addSkip(self, test, reason):
        self.note(test, "skipped", str(reason))

    def addError(self, test, err):
        self.note(test, "failed", "".join(traceback.format_exception(*err)))

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)


def named(test):
    name = test.id().replace("test." + module + ".", "", 1)
    return name if len(name) < 300 else name[:300]


def wanted(suite, skip):
    """The suite without what neither side runs."""
    kept = []
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            test = wanted(test, skip)
        elif any(fnmatch.fnmatchcase(named(test), pattern) for pattern in skip):
            continue
        kept.append(test)
    return type(suite)(kept)


def examine(cases):
    from test import support

    support.use_resources = ["subprocess", "decimal"]
    support.verbose = 0
    try:
        found = importlib.import_module("test." + module)
        suite = unittest.TestLoader().loadTestsFromModule(found)
    except unittest.SkipTest as error:
        cases.found["(module)"], cases.why["(module)"] = "skipped", str(error)
        return
    except Exception:
        cases.found["(module)"], cases.why["(module)"] = "failed", traceback.format_exc()[-LONGEST:]
        return
    wanted(suite, cases.skip).run(cases)
    support.gc_collect()


module = os.environ.pop("CASES_MODULE")
cases = Cases(json.loads(os.environ.pop("CASES_SKIP")))
report = os.environ.pop("CASES_REPORT", None)
examine(cases)
told = {"python": sys.version.split()[0], "found": cases.found, "why": cases.why}
if report is None:
    display({"application/json": told}, raw=True)  # noqa: F821
else:
    with open(report, "w", encoding="utf-8", errors="backslashreplace") as file:
        json.dump(told, file)
