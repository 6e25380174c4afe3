#!/usr/bin/env python3
"""Each planted fault is found by the default campaign, shrunk small, and its clean parent is not blamed.

Usage: faults_test.py ATTEST --seeds N. Prints, per fault, the problems to the first failure over seeds 1..N (median,
worst), the seconds, the size W of the reproducer and the subject calls of shrinking.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MOST_PROBLEMS = 10_000
MEDIAN_PROBLEMS = 300
MEDIAN_CALLS = 60
SMALLEST = {"batch-leak": 8, "scale-twice": 8, "scale-on-value": 8, "batch-path": 16}  # multiply-adds


def run(attest, *words):
    return subprocess.run([attest, *map(str, words)], capture_output=True, text=True)


def first_finding(attest, fault, seed, folder):
    corpus = Path(folder) / f"{fault}-{seed}"
    done = run(attest, "check", f"fault:{fault}", "--seed", seed, "--cases", MOST_PROBLEMS, "--jobs", 1, "--corpus",
               corpus, "--json", "-")
    summary = json.loads(done.stdout)
    if done.returncode != 1 or not summary["findings"]:
        raise AssertionError(f"{fault}, seed {seed}: not found in {summary['cases']} problems: {done.stderr}")
    finding = summary["findings"][0]
    entry = json.loads(Path(finding["reproducer"]).read_text())
    if not entry["minimal"] or not (entry["neighbours"] or finding["multiply_adds"] == 2):
        raise AssertionError(f"{fault}, seed {seed}: the reproducer is not 1-minimal: {finding['problem']}")
    if run(attest, "replay", corpus).returncode != 0:
        raise AssertionError(f"{fault}, seed {seed}: the reproducer does not replay")
    return finding


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("attest")
    parser.add_argument("--seeds", type=int, required=True)
    arguments = parser.parse_args()
    attest = arguments.attest
    failures, all_calls = [], []
    faults = [row["name"] for row in json.loads(run(attest, "list", "faults", "--json", "-").stdout)]
    print(f"{'fault':<20}{'problems':>16}{'seconds':>10}{'W':>12}{'calls':>12}   property")
    with tempfile.TemporaryDirectory() as folder:
        for fault in faults:
            try:
                found = [first_finding(attest, fault, seed, folder) for seed in range(1, arguments.seeds + 1)]
            except AssertionError as error:
                failures.append(str(error))
                continue
            problems = [f["cases_to_first"] for f in found]
            sizes = [f["multiply_adds"] for f in found]
            calls = [f["subject_calls"] for f in found]
            all_calls += calls
            print(f"{fault:<20}{statistics.median(problems):>9.0f}/{max(problems):<6}"
                  f"{statistics.median(f['seconds_to_first'] for f in found):>10.2f}"
                  f"{statistics.median(sizes):>7.0f}/{max(sizes):<5}{statistics.median(calls):>6.0f}/{max(calls):<5}   "
                  + ", ".join(sorted({f['property'] for f in found})))
            if statistics.median(problems) > MEDIAN_PROBLEMS:
                failures.append(f"{fault}: a median of {statistics.median(problems)} problems, above {MEDIAN_PROBLEMS}")
            if max(sizes) > SMALLEST.get(fault, max(sizes)):
                failures.append(f"{fault}: W = {max(sizes)}, above {SMALLEST[fault]}")
    if all_calls and statistics.median(all_calls) > MEDIAN_CALLS:
        failures.append(f"shrinking: a median of {statistics.median(all_calls)} subject calls, above {MEDIAN_CALLS}")
    clean = run(attest, "check", "builtin:fused", "--cases", 500)
    if clean.returncode != 0:
        failures.append("the clean parent is blamed:\n" + clean.stdout)
    if not faults:
        failures.append("there are no faults")
    print(f"median subject calls of shrinking: {statistics.median(all_calls) if all_calls else 'none'}")
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
