"""A pytest plugin (`-p pytest_results`) that writes each test's verdict to the file $RESULTS, and leaves out what $JUDGE_LEFT_OUT names."""

import fnmatch
import os

import pytest

VERDICTS = {}


def name_of(nodeid):
    """test_admin_integration.py::test_it[a b] as one word."""
    return nodeid.split("/")[-1].replace(" ", "_")


def pytest_collection_modifyitems(items):
    patterns = os.environ.get("JUDGE_LEFT_OUT", "").split()
    for item in items:
        if any(fnmatch.fnmatchcase(name_of(item.nodeid), pattern) for pattern in patterns):
            item.add_marker(pytest.mark.skip(reason="left out"))


def pytest_runtest_logreport(report):
    verdict = {"passed": "PASS", "failed": "FAIL", "skipped": "SKIP"}[report.outcome]
    before = VERDICTS.get(report.nodeid, "PASS")
    VERDICTS[report.nodeid] = "FAIL" if "FAIL" in (before, verdict) else "SKIP" if "SKIP" in (before, verdict) else "PASS"


def pytest_sessionfinish():
    with open(os.environ["RESULTS"], "w", encoding="utf-8") as results:
        for nodeid, verdict in VERDICTS.items():
            print(verdict, name_of(nodeid), file=results)
