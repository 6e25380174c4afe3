#!/usr/bin/env python3
"""Plain loops (plain.cpp) are not blamed, and are judged; nor are they, or attest's own plainest kernels, beside the ensemble.

Usage: plain_test.py ATTEST PLUGIN [--cases N] [--seed S]
"""
import argparse
import json
import subprocess
import sys

SUBJECTS = ["f32", "f32-online", "f64", "f64-online", "f16", "f16-online", "bf16", "bf16-online",
            "norm-f32", "norm-f64", "norm-f16", "norm-bf16", "block-f32", "block-f64"]
LEAST_JUDGED = 0.7
# The problem that one of them was blamed for once: a sum of weights that lie alike between its numbers.
BLAMED = {"f32": "b=1 hq=3 hkv=3 lq=2 lk=449 d=8 dv=8 dtype=f32 scale=0x1p-16 values=integers:1 seed=0 lk0=7"}


# Rows so long that the errors of sums in order are all a little larger than those of others, in people's shapes.
LONG_ROWS = "lk>=512 && d>=64 && dv>=16 && lq*hq*b>=4 && values==normal && b*hq*lq*lk*d<3000000"
LONG_NORMS = "norm==rms && hidden>=512 && rows>=8 && rows*hidden<300000"
BUILT_IN = [("builtin:fused-tile1", LONG_ROWS), ("builtin:ln-explicit", LONG_NORMS)]


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
    narrowed = [(f"{options.plugin}:{name}", assumed) for name, assumed in
                [("f32", LONG_ROWS), ("f32-online", LONG_ROWS), ("f16", LONG_ROWS), ("norm-f32", LONG_NORMS), ("norm-bf16", LONG_NORMS)]]
    asked = [(f"{options.plugin}:{name}", None, []) for name in SUBJECTS]
    asked += [(subject, assumed, []) for subject, assumed in narrowed]
    asked += [(subject, assumed, ["--policy", "f32"]) for subject, assumed in BUILT_IN]
    for subject, assumed, words in asked:
        summary = check(options.attest, subject, "--property", "ensemble-error", "--cases", max(20, options.cases // 20),
                        "--seed", options.seed, *words, *(["--assume", assumed] if assumed else []))
        counts = summary["verdicts"]["ensemble-error"]
        print(f"{subject.split('/')[-1]:<24} ensemble-error held {counts['pass']} times{', long rows' if assumed else ''}, "
              f"exit {summary['exit']}", flush=True)
        if summary["exit"] != 0 or counts["pass"] < summary["cases"] * LEAST_JUDGED:
            wrong += [f"{subject}: ensemble-error: exit {summary['exit']}, {counts}",
                      *(f"{subject}: {finding['rerun']}" for finding in summary["findings"])]
    for name, problem in BLAMED.items():
        summary = check(options.attest, f"{options.plugin}:{name}", "--problem", problem, "--laws", "all")
        if summary["exit"] != 0 or not summary["verdicts"]["ensemble-error"]["pass"]:
            wrong.append(f"{name}: {problem}: exit {summary['exit']}, {summary['verdicts']}")
    for line in wrong:
        print("FAILED", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
