"""Runs test files of /work with unittest or pytest, and prints a line of JSON for
each test as "go test -json" does. What the tests print goes to standard error."""

import json
import os
import sys

kind, files = sys.argv[1], sys.argv[2:]
report = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
os.chdir("/work")
# Behind everything else: no file of the folder takes the place of a module.
packages = "/packages"  # installed ones, or wheels, which Python imports from as they are
if os.path.isdir(packages):
    sys.path += [packages, *(os.path.join(packages, f) for f in sorted(os.listdir(packages)) if f.endswith(".whl"))]
sys.path += [p for p in ("/work", os.path.join("/work", "src")) if os.path.isdir(p)]
ended = {}


def tell(action, test):
    """Notes how a test ended; what failed once has failed."""
    if ended.get(test) != "fail":
        ended[test] = action


def run_unittest():
    import unittest

    class Result(unittest.TextTestResult):
        def addSuccess(self, test):
            super().addSuccess(test)
            tell("pass", test.id())

        def addError(self, test, err):
            super().addError(test, err)
            tell("fail", test.id())

        def addFailure(self, test, err):
            super().addFailure(test, err)
            tell("fail", test.id())

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            tell("skip", test.id())

        def addExpectedFailure(self, test, err):
            super().addExpectedFailure(test, err)
            tell("pass", test.id())

        def addUnexpectedSuccess(self, test):
            super().addUnexpectedSuccess(test)
            tell("fail", test.id())

        def addSubTest(self, test, subtest, err):
            super().addSubTest(test, subtest, err)
            if err is not None:
                tell("fail", test.id())

    names = [f[: -len(".py")].replace("/", ".") for f in files]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    return 0 if unittest.TextTestRunner(stream=sys.stderr, resultclass=Result).run(suite).wasSuccessful() else 1


def run_pytest():
    import pytest

    class Plugin:
        def pytest_collectreport(self, report):
            if report.failed:
                tell("fail", report.nodeid)

        def pytest_runtest_logreport(self, report):
            if report.failed:
                tell("fail", report.nodeid)
            elif report.skipped:
                tell("skip", report.nodeid)
            elif report.when == "call":
                tell("pass", report.nodeid)

    return int(pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir=/work", *files], plugins=[Plugin()]))


status = run_pytest() if kind == "pytest" else run_unittest()
for name in sorted(ended):
    report.write(json.dumps({"Action": ended[name], "Package": "python", "Test": name}) + "\n")
report.flush()
os._exit(status)
