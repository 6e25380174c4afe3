#!/usr/bin/env python3
"""Defects that two or three sizes of a model must meet to show (sized.cpp) are found by a campaign as it is, one job, in so many seconds.

Usage: sized_test.py ATTEST PLUGIN [--seconds N] [--seeds 1,2,3] [--least N] [--kernels A,B]
"""
import argparse
import json
import re
import subprocess
import sys
from pathlib import Path


def campaign(attest, plugin, kernel, seed, seconds):
    done = subprocess.run([attest, "check", f"{plugin}:{kernel}", "--seed", str(seed), "--time", f"{seconds}s", "--jobs", "1", "--shrink-budget", "1",
                           "--json", "-"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{kernel}, seed {seed}: status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attest")
    parser.add_argument("plugin")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--least", type=int, default=19, help="defects found with each seed (%(default)s)")
    parser.add_argument("--kernels", help="these alone, separated by commas")
    options = parser.parse_args()
    kernels = re.findall(r'\{"([a-z0-9-]+)",\s*\[\]', Path(__file__).with_name("sized.cpp").read_text())
    if options.kernels:
        kernels = options.kernels.split(",")
    failures = []
    for seed in options.seeds.split(","):
        found = 0
        for kernel in kernels:
            summary = campaign(options.attest, options.plugin, kernel, seed, options.seconds)
            after = f"after {summary['findings'][0]['seconds_to_first']:.1f} s" if summary["findings"] else "not found"
            print(f"seed {seed} {kernel:<18} {summary['cases']:>7,} problems, {after}", flush=True)
            if kernel == "right":
                failures += [f"seed {seed}: 'right' is blamed: {finding['rerun']}" for finding in summary["findings"]]
            else:
                found += bool(summary["findings"])
        print(f"seed {seed}: {found} of {len([kernel for kernel in kernels if kernel != 'right'])} defects found", flush=True)
        if found < options.least:
            failures.append(f"seed {seed}: {found} defects found, {options.least} are asked")
    print("\n".join(failures))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
