#!/usr/bin/env python3
"""Three nights on one corpus: what the first night found is no news in the next ones.

Usage: nights_test.py ATTEST [--faults A,B] [--cases N] [--seeds 1,2,3] [--most-red SHARE] [--keep DIR]. Each fault has a campaign for each seed,
one after the other; the reproducers of each go into the corpus that the next one is told as `--known`. The first must fail, and
of all later ones no larger share than SHARE (0): prints, for each fault, the entries that each night added and the buckets that are red."""
import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def night(attest, fault, seed, cases, corpus, folder):
    """One campaign: its status, its summary and the number of entries that it added to the corpus."""
    done = subprocess.run([attest, "fuzz", f"fault:{fault}", "--seed", str(seed), "--cases", str(cases), "--jobs", "1", "-o", folder,
                           "--known", corpus, "--json", "-"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise AssertionError(f"{fault}, seed {seed}: status {done.returncode}: {done.stderr}")
    added = 0
    for file in sorted((folder / "corpus").rglob("*.json")):
        target = corpus / file.relative_to(folder / "corpus")
        added += not target.exists()
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    return done.returncode, json.loads(done.stdout), added


def red(summary):
    """The buckets that nobody knew, a line each."""
    for finding in summary["findings"]:
        if not finding["known"]:
            yield f"{finding['failures']} of {finding['bucket']}: {finding['problem']}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("attest")
    parser.add_argument("--faults", help="these alone, separated by commas")
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--most-red", type=float, default=0)
    parser.add_argument("--keep", help="a folder for the campaigns, in place of a temporary one")
    arguments = parser.parse_args()
    listed = json.loads(subprocess.run([arguments.attest, "list", "faults", "--json", "-"], capture_output=True, text=True).stdout)
    faults = [row["name"] for row in listed]
    if arguments.faults:
        faults = arguments.faults.split(",")
    failures, news = [] if faults else ["there are no faults"], []
    nights = later = 0
    with tempfile.TemporaryDirectory() as temporary:
        for fault in faults:
            folder = Path(arguments.keep or temporary) / fault
            corpus = folder / "known"
            corpus.mkdir(parents=True)
            words = []
            for place, seed in enumerate(arguments.seeds.split(",")):
                status, summary, added = night(arguments.attest, fault, seed, arguments.cases, corpus, folder / f"night-{seed}")
                lines = list(red(summary))
                words.append(f"{added} new, {len(lines)} red")
                if place == 0 and status != 1:
                    failures.append(f"{fault}, seed {seed}: nothing was found in the first night")
                if place > 0:
                    nights += 1
                    later += status != 0
                    news += [f"{fault}, seed {seed}: {line}" for line in lines]
                    if status != (1 if lines else 0):
                        failures.append(f"{fault}, seed {seed}: status {status} with {len(lines)} new buckets")
            print(f"{fault:<22} {' | '.join(words)}", flush=True)
    print(f"{len(faults)} faults: {later} of {nights} later nights are red")
    print("\n".join(news))
    if later > arguments.most_red * nights:
        failures.append(f"that is more than {arguments.most_red:.0%}")
    print("\n".join(failures))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
