"""Runs `cargo test` in the current folder and writes each test's verdict, as file/test: cargo_results.py RESULTS [argument ...].

What $JUDGE_LEFT_OUT names is not run."""

import os
import re
import subprocess
import sys

results, arguments = sys.argv[1], sys.argv[2:]
VERDICTS = {"ok": "PASS", "FAILED": "FAIL", "ignored": "SKIP"}


def main():
    left_out = os.environ.get("JUDGE_LEFT_OUT", "").split()
    skips = [word for name in left_out for word in ("--skip", name.split("/")[-1].strip("*"))]
    command = ["cargo", "test", "--no-fail-fast", "--test", "*", *arguments, "--", *skips]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    file, ran = "", 0
    with open(results, "w", encoding="utf-8") as sink:
        for line in process.stdout:
            print(line, end="", flush=True)
            begins = re.search(r"Running (?:tests|unittests src)/(\w+)\.rs", line)
            told = re.match(r"test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", line)
            if begins:
                file = begins.group(1)
            elif told:
                print(VERDICTS[told.group(2)], f"{file}/{told.group(1)}", file=sink, flush=True)
                ran += 1
        for name in left_out:
            print("SKIP", name, file=sink)
    process.wait()
    sys.exit(0 if ran else 1)


main()
