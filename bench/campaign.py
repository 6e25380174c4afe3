#!/usr/bin/env python3
"""Measures the cost of a problem in attest, as a ratio to a Hypothesis + NumPy loop, on the same problems.

For size classes, and for shapes as people's kernels have them: `problem_times` draws attest's problems and holds each
against the policy bound (what `attest check builtin:explicit --policy P --laws 0` does), and bench/hypothesis_peer.py does
what it would do with the very same extents, masks and options: tensors, attention in float32 and in float64, one
comparison. Both take turns for three rounds, on one core, in processor time, and of each problem the least of the rounds
counts. Told are the median of the problems' own ratios, and the ratio of totals, which few problems own; each of NumPy
alone, and with what Hypothesis takes to draw a problem added to it (attest's own draw is always in attest's time).
First come rates of the default stream, each loop with the problems it draws itself.

Hypothesis is installed, pinned, into build/.venv-bench the first time, or --python names an interpreter that has it.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import cost_picture
from peers import private_python

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / "build/.venv-bench"
REQUIREMENTS = ROOT / "bench/requirements.txt"
PEER = ROOT / "bench/hypothesis_peer.py"
W = "b*hq*lq*lk*(d+dv)"
KERNEL_LIKE = "d==dv && (d==64 || d==128) && lq>=32 && lq<=512 && lk>=32 && lk<=512"
CHECK = ["check", "builtin:explicit", "--policy", "f32", "--laws", "0", "--jobs", "1", "--seed", "1", "--json", "-"]
# Name, log2 of the least and the largest W, problems, and what else is asked of them: mean W near 1e3, 2e4, 1e5 and 2e6.
SETS = [("1e3", (8, 11), 4000, ""), ("2e4", (13, 16), 2000, ""), ("1e5", (16, 18), 1000, ""), ("2e6", (20, 22), 200, ""),
        ("kernels", (20, 22), 200, KERNEL_LIKE)]
PARTS = ("draw", "values", "subject", "oracle", "laws")
THREADS = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
# The settings of malloc in cli/main.cpp, for problem_times.
MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 26), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}


def one_core(command, environment={}):
    """Output and processor seconds of a command on one core."""
    core = min(os.sched_getaffinity(0))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run([str(part) for part in command], env=os.environ | THREADS | {"OMP_WAIT_POLICY": "passive"} | environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != 0:
        sys.exit(f"{result.stderr}campaign: exit status {result.returncode} from: {' '.join(map(str, command))}")
    return result.stdout, (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def timed_problems(programs, policy, cases, assume, laws=0, subject="builtin:explicit"):
    out, _ = one_core([programs / "problem_times", subject, policy, cases, laws, *([assume] if assume else [])], MEMORY)
    return [json.loads(line) for line in out.splitlines()]


def least(rounds):
    """Returns the round of least time for each problem."""
    return [min(of_one, key=lambda line: line["seconds"]) for of_one in zip(*rounds)]


def measure_set(programs, python, policy, bits, cases, also, rounds):
    assume = f"{W} >= {1 << bits[0]} && {W} < {1 << bits[1]}" + (f" && {also}" if also else "")
    ours, theirs, draws = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problems.json"
        for _ in range(rounds):
            ours.append(timed_problems(programs, policy, cases, assume))
            file.write_text(json.dumps([line["problem"] for line in ours[0]]))
            theirs.append(json.loads(one_core([python, PEER, "--replay", file])[0]))
            draws.append(json.loads(one_core([python, PEER, "--draws", 300, "--work-bits", *bits])[0])["seconds"])
    attest = least(ours)
    numpy, draw = [min(of_one) for of_one in zip(*theirs)], min(draws)
    seconds = [line["seconds"] for line in attest]

    def ratios(extra):
        return {"median": statistics.median((n + extra) / a for n, a in zip(numpy, seconds)),
                "totals": (sum(numpy) + extra * len(numpy)) / sum(seconds)}

    slowest = sorted(seconds)[-max(1, len(seconds) // 20):]
    return {"problems": len(attest), "mean_w": statistics.fmean(line["w"] for line in attest),
            "attest": statistics.fmean(seconds), "numpy": statistics.fmean(numpy), "hypothesis": draw,
            "with_hypothesis": ratios(draw), "numpy_alone": ratios(0),
            "shares": {part: sum(line[part] for line in attest) / sum(seconds) for part in PARTS},
            "slowest_twentieth": sum(slowest) / sum(seconds)}


def tell_default_stream(programs, python, cases, seconds):
    out, spent = one_core([programs / "attest", *CHECK, "--cases", cases])
    report = json.loads(out)
    free = json.loads(one_core([programs / "bound_free", cases])[0])
    peer = json.loads(one_core([python, PEER, "--seconds", seconds])[0])
    rates = {"attest": (free["mean_w"], report["cases"] / spent),  # both draw the same problems
             "bound-free C++": (free["mean_w"], cases / free["seconds"]),
             "Hypothesis + NumPy": (peer["mean_w"], peer["problems"] / peer["seconds"])}
    print("default stream, each its own problems    mean W    problems/s   ratio")
    base = rates["Hypothesis + NumPy"][1]
    for name, (mean_w, rate) in rates.items():
        print(f"  {name:32} {mean_w:14,.0f} {rate:13,.1f} {rate / base:7.1f}", flush=True)
    return rates


def tell_set(policy, name, found):
    both, alone, micro = found["with_hypothesis"], found["numpy_alone"], 1e6
    shares = "/".join(f"{100 * found['shares'][part]:.0f}" for part in PARTS)
    print(f"  {policy:4} {name:13} {found['problems']:5} {found['mean_w']:11,.0f} {found['attest'] * micro:9,.0f}"
          f" {found['numpy'] * micro:9,.0f} {found['hypothesis'] * micro:7,.0f} {both['median']:8.1f} {both['totals']:7.1f}"
          f" {alone['median']:8.2f} {alone['totals']:7.2f}   {shares:16} {100 * found['slowest_twentieth']:3.0f} %", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="build folder (%(default)s)")
    parser.add_argument("--python", type=Path, help="has what bench/requirements.txt names")
    parser.add_argument("--policies", nargs="+", default=["f32", "f16", "bf16"])
    parser.add_argument("--sets", nargs="+", choices=[s[0] for s in SETS], help="some of the sets alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1, help="of the problems of each set")
    parser.add_argument("--cases", type=int, default=20000, help="problems of the default stream; 0: leave it out (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="at least this long for the peer's own stream")
    parser.add_argument("--json", type=Path, help="write all figures there too")
    parser.add_argument("--picture", type=Path, help="draw the cost of each part over W there (SVG), of builtin:fused and two laws")
    arguments = parser.parse_args()
    programs = arguments.build / "bin"
    for name in ("attest", "bound_free", "problem_times"):
        if not (programs / name).exists():
            sys.exit(f"campaign: no {programs / name}: first cmake --preset release -DATTEST_BUILD_BENCH=ON && ninja -C build/release")
    python = arguments.python or private_python("campaign", "Hypothesis and NumPy", VENV, REQUIREMENTS)

    figures = {}
    if arguments.cases:
        figures["default"] = tell_default_stream(programs, python, arguments.cases, arguments.seconds)
    print("\nthe same problems, one core, microseconds a problem                        with Hypothesis    NumPy alone")
    print("       W             n      mean W    attest     NumPy    draw   median  totals   median  totals   "
          f"{'/'.join(PARTS)}, slowest twentieth")
    for policy in arguments.policies:
        for name, bits, cases, also in SETS:
            if arguments.sets and name not in arguments.sets:
                continue
            found = measure_set(programs, python, policy, bits, max(2, round(cases * arguments.share)), also, arguments.rounds)
            figures[f"{policy} {name}"] = found
            tell_set(policy, name, found)
    if arguments.picture:
        lines = timed_problems(programs, "f32", 6000, "", laws=2, subject="builtin:fused")
        arguments.picture.write_text(cost_picture.svg(lines, PARTS))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
