#!/usr/bin/env python3
"""Plain loops (plain.cpp) are not blamed, and are judged.

Usage: plain_test.py ATTEST PLUGIN [--cases N] [--seed S]
"""
import argparse
import json
import subprocess
import sys

SUBJECTS = ["f32", "f32-online", "f64", "f64-online", "f16", "f16-online", "bf16", "bf16-online",
            "norm-f32", "norm-f64", "norm-f16", "norm-bf16", "block-f32", "block-f64"]
LEAST_JUDGED = 0.7
# What one of them was blamed for once: a sum of weights that lie alike between its numbers.
BLAMED = {"f32": "b=1 hq=3 hkv=3 lq=2 lk=449 d=8 dv=8 dtype=f32 scale=0x1p-16 values=integers:1 seed=0 lk0=7"}


def check(attest, subject, *words):
    done = subprocess.run([attest, "check", subject, *map(str, words), "--json", "-"], capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"attest check {subject}: exit status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attest")
    parser.add_argument("plugin")
    parser.add_argument("--cases", type=int, default=20_000, help="problems per kernel (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wrong = []
    for name in SUBJECTS:
        subject = f"{options.plugin}:{name}"
        summary = check(options.attest, subject, "--cases", options.cases, "--seed", options.seed)
        share = summary["judged"] / summary["cases"]
        print(f"{name:<12} {summary['cases']:>8,} problems, {100 * share:.1f} % judged, {summary['elements']:>13,} elements, "
              f"exit {summary['exit']}", flush=True)
        if summary["exit"] != 0 or share < LEAST_JUDGED:
            wrong += [f"{name}: exit {summary['exit']}, {100 * share:.1f} % judged",
                      *(f"{name}: {finding['property']}: {finding['rerun']}" for finding in summary["findings"])]
    for name, problem in BLAMED.items():
        summary = check(options.attest, f"{options.plugin}:{name}", "--problem", problem, "--laws", "all")
        if summary["exit"] != 0 or not summary["verdicts"]["aggregate-error"]["pass"]:
            wrong.append(f"{name}: {problem}: exit {summary['exit']}, {summary['verdicts']['aggregate-error']}")
    for line in wrong:
        print("FAILED", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
