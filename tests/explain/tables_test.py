#!/usr/bin/env python3
"""The explanations of each planted fault's reproducers are those of docs/explain.md, and good enough.

Usage: tables_test.py EXPLAIN_TABLES SOURCE. Prints both tables. Fails if a line of them is not in the page, if the first
hypothesis is right for fewer than nine faults in ten, or if without the fault's own family the right stage is told for fewer
than three in four.
"""
import re
import subprocess
import sys
from pathlib import Path

LEAST_NAMED, LEAST_STAGE = 0.9, 0.75


def main(program, source):
    printed = subprocess.run([program, str(Path(source) / "corpus")], check=True, capture_output=True, text=True).stdout
    print(printed)
    page = (Path(source) / "docs" / "explain.md").read_text().splitlines()
    wrong = [f"docs/explain.md does not have: {line}" for line in printed.splitlines() if line and line not in page]
    named = re.search(r"(\d+) faults, \d+ reproducers: itself named first in all of its own (\d+), one of its family with the "
                      r"same numbers (\d+);", printed)
    stage = re.search(r"(\d+) faults, \d+ reproducers: the right stage in all of its own (\d+);", printed)
    faults, itself, family = map(int, named.groups())
    if itself + family < LEAST_NAMED * faults:
        wrong.append(f"the first hypothesis is right for {itself + family} of {faults} faults")
    if int(stage[2]) < LEAST_STAGE * int(stage[1]):
        wrong.append(f"the stage is right for {stage[2]} of {stage[1]} faults")
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
