"""The hostile emulators of the prototypes of the bounds against the oracle: conforming blocks and norms of another hand, no finding allowed.

    prototypes.py ATTEST FOLDER [--op mha|layer_norm] [--seed N] [--elements N] [--seconds N] [--cases N]
                  [--fault N]

FOLDER (or ATTEST_PROTOTYPES) holds `mha/mha.hpp` and `layer-norm/ln.hpp`, which are no part of this repository. Each is compiled into a
plug-in here, and `attest check` asks it under contracts at random. Prints what was judged by contract. Status 1: a conforming
kernel was blamed; 2: nothing to compile. With --fault, a number of that header's, status 0 says that it was found.
"""

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "include"
OPERATIONS = {"mha": ("mha", "mha.hpp", "prototype_mha.cpp"), "layer_norm": ("layer-norm", "ln.hpp", "prototype_layer_norm.cpp")}


def compiled(op, folder, into):
    subfolder, header, source = OPERATIONS[op]
    if not (folder / subfolder / header).is_file():
        sys.exit(f"prototypes.py: {folder / subfolder} holds no {header}: name the folder of the prototypes")
    library = into / f"{op}.so"
    command = [os.environ.get("CXX", "c++"), "-std=gnu++20", "-O2", "-ffp-contract=off", "-w", "-fPIC", "-shared", f"-I{folder / subfolder}",
               f"-I{INCLUDE}", str(HERE / source), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def draw_mha(source):
    """Words for the plug-in, and its describe."""
    policy, attest = source.choice([("f32", "f32"), ("f16", "f16"), ("bf16", "bf16"), ("f16-gemm16", "f16,gemm=f16")])
    projections, heads = source.choice([0, 1, 2]), source.choice([0, 1])
    if policy == "f16-gemm16" and projections == 0:
        projections = 1  # that emulator has f32 everywhere where projections are unrounded
    kappa = 3 if source.random() < 0.2 else 1
    contract = {"policy": attest, "projections": ["unrounded", "rounded", "separate"][projections], "heads": ["unrounded", "rounded"][heads],
                "kappa": kappa, "lse_merge": "none", "normalise": ["after", "before"], "empty_row": "zero", "deterministic": "no"}
    supports = {"bias": False, "keep": False, "gqa": False, "scale": "positive"}
    dtype = attest.split(",")[0]
    describe = {"ops": ["mha"], "dtypes": [dtype], "contract": contract, "supports": supports}
    return f"{policy} {projections} {heads} {kappa}", describe, attest


def draw_layer_norm(source):
    policy = source.choice(["f32", "f64", "f16", "bf16", "f16-all", "bf16-all"])
    variance, lanes, tree = source.randrange(4), source.choice([1, 1, 2, 4, 8, 32]), source.randrange(3)
    if variance == 1 and tree == 2:
        tree = 1
    form = source.choice([0, 0, 0, 1, 2])
    rounded = int(source.random() < 0.3 and form < 2)
    clamp, flush = source.randrange(2), int(source.random() < 0.15 and policy != "f64")
    kappa = 3 if source.random() < 0.1 and policy != "f64" else 1
    root = source.randrange(4)
    ulp, rel = 1.0, 0.0
    if root == 3:
        ulp = 2.5
    elif root == 2:
        ulp = source.choice([1.0, 2.0])
        rel = source.choice([0.0, 0.0, 2.0 ** -14, 1.5 * 2.0 ** -12])
    contract = {"policy": policy, "variance": ["two_pass", "welford", "one_pass", "shifted"][variance],
                "form": ["centred", "scale_bias", "folded"][form], "norm_rounded": bool(rounded), "kappa": kappa,
                "flush_to_zero": bool(flush), "deterministic": "no"}
    if rel:
        contract["rsqrt_rel"] = max(rel, 2 * ulp * {"f16-all": 2.0 ** -11, "bf16-all": 2.0 ** -8, "f64": 2.0 ** -53}.get(policy, 2.0 ** -24))
    else:
        contract["rsqrt_ulp"] = ulp
    if variance >= 2:
        contract["clamp"] = bool(clamp)
    if variance == 1 and lanes > 1:
        contract |= {"merge": "delta", "merge_depth": lanes - 1}
    norms = ["layer", "rms"] if form == 0 else ["layer"]
    describe = {"ops": ["layer_norm"], "dtypes": [policy.split("-")[0]], "contract": contract,
                "supports": {"norms": norms, "sum_out": False, "param_dtypes": ["same"]}}
    words = f"{policy} {variance} {form} {rounded} {clamp} {flush} {kappa} {ulp} {rel!r} {root} {lanes} {tree}"
    return words, describe, f"{policy} {contract['variance']}"


def check(attest, library, words, describe, options):
    env = dict(os.environ, ATTEST_PROTOTYPE=words, ATTEST_PROTOTYPE_DESCRIBE=json.dumps(describe))
    run = subprocess.run([attest, "check", str(library), "--in-process", "--jobs", "1", "--json", "-", *options], env=env, capture_output=True,
                         text=True, timeout=6000)
    try:
        return json.loads(run.stdout)
    except json.JSONDecodeError:
        sys.exit(f"prototypes.py: attest check gave no report under {json.dumps(describe)}:\n{run.stdout}{run.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("attest")
    parser.add_argument("folder", nargs="?", default=os.environ.get("ATTEST_PROTOTYPES"))
    parser.add_argument("--op", choices=sorted(OPERATIONS), action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--elements", type=float, default=1e6, help="of each operation")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of each operation, at most, and a contract more")
    parser.add_argument("--cases", type=int, default=400, help="problems of a contract")
    parser.add_argument("--fault", type=int, default=0, help="plant it: it must be found")
    options = parser.parse_args()
    if options.folder is None:
        sys.exit("prototypes.py: name the folder of the prototypes, or set ATTEST_PROTOTYPES")
    draws = {"mha": draw_mha, "layer_norm": draw_layer_norm}
    blamed = 0
    with tempfile.TemporaryDirectory() as folder:
        for op in options.op or sorted(OPERATIONS):
            library = compiled(op, Path(options.folder), Path(folder))
            source = random.Random(f"{options.seed}:{op}")
            judged, laws, undetermined, contracts, found = collections.Counter(), collections.Counter(), 0, 0, 0
            started = time.monotonic()
            # Few elements are judged before a fault is found.
            while (contracts < 8 if options.fault else sum(judged.values()) < options.elements) and time.monotonic() - started < options.seconds:
                words, describe, name = draws[op](source)
                seed = source.getrandbits(30)
                report = check(options.attest, library, f"{words} {seed} {options.fault}", describe,
                               ["--seed", str(seed), "--cases", str(options.cases), "--laws", "0", "--shrink-budget", "20"])
                judged[name] += report["elements"]
                undetermined += report["undetermined"]
                contracts += 1
                for law, verdicts in report["verdicts"].items():
                    laws[law] += verdicts.get("pass", 0)
                found += bool(report["findings"])
                for finding in report["findings"] if not options.fault else []:
                    print(f"BLAMED {op}: {finding['property']} {finding.get('problem')}\n  {words} {seed}\n  contract {json.dumps(describe['contract'])}\n"
                          f"  witness {json.dumps(finding.get('witness'))}", flush=True)
            print(f"{op}: {contracts} contracts, {sum(judged.values())} elements judged, {undetermined} undetermined, "
                  f"{found} contracts with a finding", flush=True)
            for name, count in sorted(judged.items()):
                print(f"  {name:24} {count:12}")
            print("  held: " + ", ".join(f"{law} {count}" for law, count in sorted(laws.items()) if count))
            blamed += found if not options.fault else not found
    return 1 if blamed else 0


if __name__ == "__main__":
    sys.exit(main())
