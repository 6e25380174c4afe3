#!/usr/bin/env python3
"""An understood defect gives way: a subject of which a third of the default stream crashes, beside its parent that does not.

Usage: crowded_test.py ATTEST PLUGIN [SECONDS]. Over five seeds: the crowded one does at least 60 % as many problems a second, and
finds the three rare defects behind the crash in at most twice the parent's time (medians). Prints both.
"""
import json
import statistics
import subprocess
import sys
import tempfile

ATTEST, PLUGIN = sys.argv[1:3]
SECONDS = sys.argv[3] if len(sys.argv) > 3 else "40"
SEEDS = range(1, 6)

# The three of plugins/crowded.c, as a reproducer shows them.
RARE = {
    "capped bias": lambda p: "softcap" in p and "bias" in p,
    "narrow window": lambda p: p.get("window_left") == "0",
    "long groups": lambda p: p["hq"] != p["hkv"],
}


def campaign(subject, seed):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [ATTEST, "fuzz", f"{PLUGIN}:{subject}", "--time", f"{SECONDS}s", "--seed", str(seed), "--jobs", "2", "-o", folder,
             "--json", "-"], capture_output=True, text=True, check=False)
    summary = json.loads(done.stdout)
    first = {}
    for finding in summary["findings"]:
        if finding["verdict"] == "crash":
            continue
        problem = dict(word.split("=", 1) for word in finding["problem"].split())
        for name, shows in RARE.items():
            if shows(problem):
                first[name] = min(first.get(name, float("inf")), finding["seconds_to_first"])
    return summary["cases"] / summary["seconds"], first


def main():
    rows = {subject: [campaign(subject, seed) for seed in SEEDS] for subject in ("parent", "crowded")}
    rate = {subject: statistics.median(r for r, _ in runs) for subject, runs in rows.items()}
    print(f"problems a second: parent {rate['parent']:.0f}, crowded {rate['crowded']:.0f} "
          f"({100 * rate['crowded'] / rate['parent']:.0f} %)")
    good = rate["crowded"] >= 0.6 * rate["parent"]
    for name in RARE:
        seconds = {subject: statistics.median(first.get(name, float("inf")) for _, first in runs)
                   for subject, runs in rows.items()}
        print(f"{name}: parent after {seconds['parent']:.1f} s, crowded after {seconds['crowded']:.1f} s")
        # Below a second, what the machine does besides decides.
        good = good and seconds["crowded"] <= max(2 * seconds["parent"], 2)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
