#!/usr/bin/env python3
"""The records of smallest.txt: each fault shows on a problem of its size, and on none of the smaller ones drawn.

Usage: smallest_test.py ATTEST --cases N. All laws are asked. Prints, per fault, the problems of exactly that size until the
first failure, and how many smaller ones passed.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

# Facts about an operation's faults: W, the condition that a problem is not empty, and W where every dimension is 1.
ATTENTION = "b*hq*lq*lk*(d+dv)", "b>=1 && hq>=1 && lq>=1 && lk>=1 && d>=1 && dv>=1", 2
LAYER_NORM = "rows*hidden", "rows>=1 && hidden>=1", 1
MHA = ("b*(2*l*heads*head_dim+2*m*kv_heads*head_dim)*e+2*b*heads*head_dim*l*m", "b>=1", 6)


def operation_of(fault):
    return LAYER_NORM if fault.startswith("ln-") else MHA if fault.startswith("mha-") else ATTENTION


# Larger ones are rare among those drawn; faults_test.py shrinks to them.
MOST = 1000


def all_records():
    lines = (Path(__file__).parent / "smallest.txt").read_text().splitlines()
    rows = [line.split(None, 2) for line in lines if not line.startswith("#")]
    return [(fault, int(size), reason) for fault, size, reason in rows]


def records():
    """The smallest problem that some law needs, by fault."""
    return [row for row in all_records() if "@" not in row[0] and "[" not in row[0]]


def records_where():
    """[(fault, condition, W)], of problems for which "heads==kv_heads" or the like holds."""
    return [(*name.rstrip("]").split("["), size) for name, size, reason in all_records() if "[" in name]


def records_by_law():
    """{(fault, law): W}, for the laws that need more."""
    return {tuple(name.split("@")): size for name, size, reason in all_records() if "@" in name}


def check(attest, fault, predicate, cases):
    work, not_empty, _ = operation_of(fault)
    words = [attest, "check", f"fault:{fault}", "--assume", f"{work} {predicate} && {not_empty}", "--laws", "all", "--cases",
             str(cases), "--jobs", "1", "--shrink-budget", "1", "--json", "-"]
    done = subprocess.run(words, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{' '.join(words)}: exit status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("attest")
    parser.add_argument("--cases", type=int, required=True)
    parser.add_argument("--faults", help="these alone, separated by commas")
    arguments = parser.parse_args()
    failures = []
    print(f"{'fault':<22}{'W':>6}{'problems':>10}{'smaller':>9}")
    for fault, where, size in [(fault, "", size) for fault, size, reason in records()] + records_where():
        if size > MOST or arguments.faults and fault not in arguments.faults.split(","):
            continue
        where = f" && {where}" if where else ""
        at = check(arguments.attest, fault, f"== {size}{where}", arguments.cases)
        first = at["findings"][0]["cases_to_first"] if at["findings"] else None
        if first is None:
            failures.append(f"{fault}{where}: no problem of W = {size} fails, of {at['cases']}")
        below = check(arguments.attest, fault, f"< {size}{where}", arguments.cases) if size > operation_of(fault)[2] else None
        if below and below["findings"]:
            failures.append(f"{fault}{where}: W is less than {size} in {below['findings'][0]['problem']}")
        print(f"{fault + where:<22}{size:>6}{first or '-':>10}{below['cases'] if below else '-':>9}", flush=True)
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
