#!/usr/bin/env python3
"""Kernels that keep state, as a user meets them: who is blamed, what is stored, and what replays in a new process.

Usage: stateful_test.py ATTEST PLUGIN SCRIPT --seeds N --cases M [--before SEEDS]. Several processes may share the seeds: --before leaves
out so many. PLUGIN and SCRIPT hold kernels that a call in a hundred poisons:
all calls after it fail, each kernel in its way. Findings may be such calls alone.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WAYS = ("error", "crash", "wrong", "nan")
failures = []


def run(attest, *words):
    return subprocess.run([attest, *map(str, words)], capture_output=True, text=True)


def expect(condition, what):
    if not condition:
        failures.append(what)
        print(f"FAILED: {what}", file=sys.stderr)


def campaign(attest, subject, seed, cases, corpus, *options):
    done = run(attest, "check", subject, "--continue-after-failure", "--seed", seed, "--cases", cases, "--jobs", 2,
               "--corpus", corpus, "--json", "-", *options)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        raise AssertionError(f"{subject}, seed {seed}: {done.returncode} {done.stderr}") from None


def fields(line):
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def poisons(line):
    """Decides as the kernels themselves do, from the shapes of q, k and v."""
    n = {key: int(value) for key, value in fields(line).items() if key in ("b", "hq", "hkv", "lq", "lk", "d", "dv")}
    shape = [n["b"], n["hq"], n["lq"], n["d"], n["b"], n["hkv"], n["lk"], n["d"], n["b"], n["hkv"], n["lk"], n["dv"]]
    number = 0
    for extent in shape:
        number = (number * 31 + extent) % 2**64
    return (number * 0x9E3779B97F4A7C15 % 2**64) >> 56 < 3


def poisoned_alone(attest, subject, seeds, cases):
    """Each finding is of a call that poisons; each reproducer brings it back in a new process."""
    told = blamed = 0
    for seed in seeds:
        with tempfile.TemporaryDirectory() as corpus:
            summary = campaign(attest, subject, seed, cases, corpus)
            for finding in summary["findings"]:
                told += 1
                which = f"{subject}, seed {seed}: {finding['bucket']}: {finding['problem']}"
                expect(finding["verdict"] != "flaky", f"{which} is flaky: {finding.get('reason')}")
                expect(finding["verdict"] == "poisoned" or not finding.get("after"),
                       f"{which} is innocent: it fails after {finding.get('after')}")
                if not finding["reproducer"]:
                    continue
                entry = json.loads(Path(finding["reproducer"]).read_text())
                if finding["verdict"] == "poisoned" and not entry["with"]:
                    blamed += 1
                    expect(poisons(finding["problem"]), f"{which} poisons nothing")
            if summary["findings"]:
                done = run(attest, "replay", "--subject", subject, corpus)
                expect(done.returncode == 0, f"{subject}, seed {seed}: replay says {done.stdout}{done.stderr}")
    print(f"{subject}: {told} findings over {len(seeds)} seeds, {blamed} of them calls that poison by themselves")
    return blamed


def keeps_scale(attest, plugin):
    subject = f"{plugin}:keeps-scale"
    with tempfile.TemporaryDirectory() as corpus:
        summary = campaign(attest, subject, 1, 300, corpus, "--laws", 0)
        behind = [finding for finding in summary["findings"] if finding.get("after")]
        expect(behind, f"{subject}: no finding says which calls come before")
        # Where the budget ends first there are more, and the entry is not told as minimal.
        one = [finding for finding in behind if len(finding["after"]) == 1]
        expect(2 * len(one) >= len(behind), f"{subject}: one call is left before {len(one)} of {len(behind)} findings")
        for finding in behind:
            expect(len(finding["after"]) == 1 or not finding["minimal"], f"{subject}: {finding['after']} is called minimal")
        done = run(attest, "replay", "--subject", subject, corpus)
        expect(done.returncode == 0, f"{subject}: replay says {done.stdout}{done.stderr}")
        script = run(attest, "export", behind[0]["reproducer"], "--subject", subject, "--to", "python")
        expect("ran this call before" in script.stdout and "cannot make them" in script.stdout,
               f"{subject}: the script does not say what comes before: {script.stdout[:400]}")
        told = run(attest, "check", subject, "--laws", 0, "--cases", 300).stdout
        expect("answers differ from call to call" in told, f"{subject}: the report does not say so:\n{told}")
        # Damage is refused in one sentence.
        text = Path(behind[0]["reproducer"]).read_text().replace('"after": [', '"after": [7,', 1)
        broken = Path(corpus) / "broken.json"
        broken.write_text(text)
        expect(run(attest, "replay", "--subject", subject, broken).returncode == 2, "a damaged 'after' is accepted")
    print(f"{subject}: {len(behind)} of {len(summary['findings'])} findings with the call before them")


def races(attest, plugin):
    subject = f"{plugin}:races"
    with tempfile.TemporaryDirectory() as corpus:
        summary = campaign(attest, subject, 1, 40, corpus)
        rates = [finding["shown"] for finding in summary["findings"] if finding.get("shown")]
        expect(rates, f"{subject}: no finding says how often it shows")
        for _ in range(3):
            done = run(attest, "replay", "--subject", subject, corpus)
            expect(" mended" not in done.stdout.replace(" 0 mended", ""), f"{subject}: replay says {done.stdout}")
    print(f"{subject}: {len(rates)} of {len(summary['findings'])} findings say how often they show")


def catalogue(attest, times):
    """Every reproducer of the faults that keep state replays in a new process each time."""
    for fault in ("race", "state-kept"):
        with tempfile.TemporaryDirectory() as corpus:
            summary = campaign(attest, f"fault:{fault}", 1, 300, corpus)
            expect(summary["findings"], f"fault:{fault} is not found")
            for _ in range(times):
                done = run(attest, "replay", corpus)
                expect(done.returncode == 0, f"fault:{fault}: replay says {done.stdout}{done.stderr}")
        print(f"fault:{fault}: {len(summary['findings'])} reproducers, replayed {times} times")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("attest")
    parser.add_argument("plugin")
    parser.add_argument("script")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--before", type=int, default=0)
    parser.add_argument("--cases", type=int, default=150)
    parser.add_argument("--times", type=int, default=2)
    options = parser.parse_args()
    # Calls of a plug-in cost little, and without the script it alone must show something.
    subjects = [(f"{options.plugin}:poisoned-{way}", 3 * options.cases) for way in WAYS]
    python = os.environ.get("ATTEST_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
        subjects += [(f"{options.script}:{way}", options.cases) for way in WAYS]
    else:
        print("no numpy: the script is left out")
    seeds = range(options.before + 1, options.before + options.seeds + 1)
    blamed = sum(poisoned_alone(options.attest, subject, seeds, cases) for subject, cases in subjects)
    expect(blamed > 0, "no call was blamed for what it poisoned: the test saw nothing")
    keeps_scale(options.attest, options.plugin)
    races(options.attest, options.plugin)
    catalogue(options.attest, options.times)
    if failures:
        sys.exit(f"{len(failures)} failures")


if __name__ == "__main__":
    main()
