#!/usr/bin/env python3
"""How many problems attest judges in a second, as a ratio to a Hypothesis + NumPy loop.

Runs `attest check builtin:explicit --policy f32 --laws 0 --jobs 1` (the policy bound on every problem),
the same problems without any bound (bench/bound_free.cpp), and bench/hypothesis_peer.py over the same
ranges and work bands: the default stream first, then size classes. Each has one core, and rates are per
second of processor time, so that a busy machine does not matter much.

Hypothesis is installed, pinned, into build/.venv-bench the first time.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

from peers import private_python

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / "build/.venv-bench"
REQUIREMENTS = ROOT / "bench/requirements.txt"
PEER = ROOT / "bench/hypothesis_peer.py"
W = "b*hq*lq*lk*(d+dv)"
CHECK = ["check", "builtin:explicit", "--policy", "f32", "--laws", "0", "--jobs", "1", "--seed", "1", "--json", "-"]
# log2 of the least and the largest W of a class, and its problems: mean W near 1e3, 2e4, 1e5 and 2e6.
CLASSES = [((8, 11), 20000), ((13, 16), 4000), ((16, 18), 1000), ((20, 22), 100)]


def one_core(command):
    """Output and processor seconds of a command on one core."""
    core = min(os.sched_getaffinity(0))
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run([str(part) for part in command], env=os.environ | threads, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != 0:
        sys.exit(f"{result.stderr}campaign: exit status {result.returncode} from: {' '.join(map(str, command))}")
    return json.loads(result.stdout), (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def measure(programs, python, cases, seconds, bits=None):
    """(mean W, problems/s) of attest, of the bound-free loop, and of the peer; and attest's own account of its time."""
    restrict, band, peer_band = [], [], []
    if bits:
        least, most = 1 << bits[0], 1 << bits[1]
        restrict, band = ["--assume", f"{W} >= {least} && {W} < {most}"], [least, most]
        peer_band = ["--work-bits", *bits]
    report, spent = one_core([programs / "attest", *CHECK, "--cases", cases, *restrict])
    free, _ = one_core([programs / "bound_free", cases, *band])
    peer, _ = one_core([python, PEER, "--seconds", seconds, *peer_band])
    rates = {"attest": (free["mean_w"], report["cases"] / spent),  # both draw the same problems
             "bound-free C++": (free["mean_w"], cases / free["seconds"]),
             "Hypothesis + NumPy": (peer["mean_w"], peer["problems"] / peer["seconds"])}
    return rates, report["seconds_in"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="build folder (%(default)s)")
    parser.add_argument("--cases", type=int, default=20000, help="problems of the default stream (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="at least this long for each run of the peer")
    parser.add_argument("--json", type=Path, help="write all figures there too")
    arguments = parser.parse_args()
    programs = arguments.build / "bin"
    for name in ("attest", "bound_free"):
        if not (programs / name).exists():
            sys.exit(f"campaign: no {programs / name}: first cmake --preset release && ninja -C build/release")
    python = private_python("campaign", "Hypothesis and NumPy", VENV, REQUIREMENTS)

    rates, seconds_in = measure(programs, python, arguments.cases, arguments.seconds)
    figures = {"default": rates}
    print("default stream, one core           mean W    problems/s   ratio")
    base = rates["Hypothesis + NumPy"][1]
    for name, (mean_w, rate) in rates.items():
        print(f"  {name:28} {mean_w:12,.0f} {rate:13,.1f} {rate / base:7.1f}", flush=True)
    total = sum(seconds_in.values())
    shares = ", ".join(f"{name} {100 * value / total:.0f} %" for name, value in seconds_in.items() if value > 0)
    print(f"  attest's time goes into: {shares}")

    print("\nsize classes, problems/s       mean W      attest  bound-free        peer   attest/peer  bound-free/peer")
    for bits, cases in CLASSES:
        rates, _ = measure(programs, python, cases, arguments.seconds, bits)
        figures[f"2^{bits[0]}..2^{bits[1]}"] = rates
        (mean_w, ours), (_, free), (_, peer) = rates.values()
        print(f"  W in 2^{bits[0]:<2}..2^{bits[1]:<2}         {mean_w:12,.0f} {ours:11,.1f} {free:11,.1f} {peer:11,.1f}"
              f" {ours / peer:13.1f} {free / peer:16.1f}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
