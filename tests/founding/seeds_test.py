#!/usr/bin/env python3
"""The default campaign finds the faults behind the founding cases from every seed, shrinks and stores them, and they replay.

Usage: seeds_test.py ATTEST [--seeds N]. Prints the problems to the first failure per fault and policy (median, worst).
"""
import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))
from faults_test import first_finding

FAULTS = {
    "S0": ["mha-softmax-f16", "mha-layout-misread", "mha-head-transpose"],
    "S1": ["mha-gemm-f16"],
    "S2": ["ln-policy-ignored"],
    "S3": ["batch-leak", "batch-path", "batch-split"],
    "S4": ["scale-on-value", "scale-missing", "scale-twice", "scale-sqrt-once", "scale-default-kept", "scale-embed-dim",
           "scale-after-mask"],
}
POLICIES = ["f32", "f16"]
PROBLEMS = 5000


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
                with tempfile.TemporaryDirectory() as folder:
                    for seed in range(1, arguments.seeds + 1):
                        try:
                            finding = first_finding(arguments.attest, fault, seed, folder, PROBLEMS, ["--policy", policy])
                            problems.append(finding["cases_to_first"])
                        except AssertionError as error:
                            failures.append(f"{case}: under {policy}: {error}")
                if problems:
                    print(f"{case}  {fault:<20}{policy:<6}{statistics.median(problems):>6.0f}/{max(problems)}")
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
