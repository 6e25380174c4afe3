#!/usr/bin/env python3
"""The default campaign finds the faults behind the founding cases from every seed, shrinks and stores them, and they replay.

Usage: seeds_test.py ATTEST [--seeds N]. Prints the problems to the first failure per fault and policy (median, worst).
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FAULTS = {
    "S3": ["batch-leak", "batch-path", "batch-split"],
    "S4": ["scale-on-value", "scale-missing", "scale-twice", "scale-sqrt-once", "scale-default-kept", "scale-embed-dim",
           "scale-after-mask"],
}
POLICIES = ["f32", "f16"]
PROBLEMS = 5000


def run(attest, *words):
    return subprocess.run([attest, *map(str, words)], capture_output=True, text=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attest")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    failures = []
    for case, faults in FAULTS.items():
        for fault in faults:
            for policy in POLICIES:
                problems = []
                for seed in range(1, arguments.seeds + 1):
                    with tempfile.TemporaryDirectory() as corpus:
                        done = run(arguments.attest, "check", f"fault:{fault}", "--policy", policy, "--seed", seed,
                                   "--cases", PROBLEMS, "--jobs", 1, "--corpus", corpus, "--json", "-")
                        summary = json.loads(done.stdout)
                        if done.returncode != 1:
                            failures.append(f"{case}: {fault} under {policy}, seed {seed}: status {done.returncode}")
                            continue
                        problems.append(summary["findings"][0]["cases_to_first"])
                        entries = list(Path(corpus).rglob("*.json"))
                        if not entries or not all(json.loads(entry.read_text())["minimal"] for entry in entries):
                            failures.append(f"{case}: {fault} under {policy}, seed {seed}: no minimal reproducer")
                        if run(arguments.attest, "replay", corpus).returncode != 0:
                            failures.append(f"{case}: {fault} under {policy}, seed {seed}: it does not replay")
                if problems:
                    print(f"{case}  {fault:<20}{policy:<6}{statistics.median(problems):>6.0f}/{max(problems)}")
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
