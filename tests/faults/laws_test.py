#!/usr/bin/env python3
"""Each law finds a planted fault alone, and leaves alone a conforming kernel that differs from the usual one.

Usage: laws_test.py ATTEST CHEATS [--cases N] [--clean-cases N] [--policies P,...] [--kernels K,...]. LAWS below names both for
every law that `attest list properties` knows; a law without a line fails the test. Prints, per law, the problems to the
first failure and how many problems the conforming kernel was held to.
"""
import argparse
import json
import subprocess
import sys

# law: a fault that it finds, and a conforming kernel to which it applies. A fault "kept-by-*" is a subject of the plug-in CHEATS.
LAWS = {
    "guards": ("unwritten", "fused-split"),
    "result-class": ("row-empty-nan", "fused-exp2"),
    "repeat": ("race", "fused-split"),
    "threads": ("thread-split", "fused-split"),
    "kept-state": ("state-kept", "fused-split"),
    "batch-values": ("batch-leak", "fused-exp2"),
    "batch-bitwise": ("batch-split", "fused-split"),
    "masked-contents": ("mask-finite", "fused-split"),
    "nonfinite-masked": ("masked-read", "fused-split"),
    "nonfinite-attended": ("nan-masked", "fused-exp2"),
    "causal-prefix": ("causal-off-by-one", "fused-split"),
    "value-sign": ("output-clamped", "fused-truncating"),
    "value-power": ("pv-acc-f16", "fused-split"),
    "qk-sign": ("query-floor", "fused-scale-q"),
    "qk-flip": ("query-floor", "fused-truncating"),
    "single-key": ("scale-on-value", "fused-exp2"),
    "mean": ("tail-included", "fused-lazy"),
    "scale-power": ("scale-twice", "fused-split"),
    "hard-selection": ("tail-included", "fused-exp2"),
    "policy-bound": ("qk-acc-f16", "fused-scale-q"),
    "fused-equals-explicit": ("scale-on-value", "fused-exp2"),
    "batch-bounded": ("batch-mask", "fused-batch-split"),
    "layout": ("strides-ignored", "fused-split"),
    "other-form": ("form-scale-default", "fused-forms"),
    "scale-moved": ("scale-default-kept", "fused-scale-q"),
    "causal-truncated": ("causal-off-by-one", "fused-split"),
    "window-mask": ("window-off-by-one", "fused-split"),
    "length-mask": ("kv-length-ignored", "fused-exp2"),
    "heads-expanded": ("gqa-modulo", "fused-split"),
    "constant-value": ("rescale-sum-only", "fused-exp2"),
    "hull": ("scale-on-value", "fused-exp2"),
    "key-permutation": ("padding-right-only", "fused-split"),
    "score-shift": ("max-init-zero", "fused-exp2"),
    "value-linearity": ("value-zero-masked", "fused-split"),
    "pad-width": ("scale-default-kept", "fused-scale-q"),
    "pad-keys": ("tail-dropped", "fused-split"),
    "duplicated-columns": ("rescale-tail", "fused-exp2"),
    "lse": ("lse-wrong-base", "fused-split"),
    "split-merge": ("split-merge", "fused-exp2"),
    "last-query": ("mask-dropped", "fused-split"),
    "other-queries": ("kept-by-kv", "fused-split"),
    "other-keys": ("kept-by-qv", "fused-split"),
    "other-values": ("kept-by-qk", "fused-exp2"),
    "other-masks": ("kept-by-qkv", "fused-split"),
    "lone-key": ("max-init-zero", "fused-split"),
    "narrow-stage": ("scores-overflow-f16", "fused-split"),
    "ensemble-error": ("pv-acc-f16", "fused-split"),
}


# Laws that warn, and fail nothing: problems of a campaign, which does not end at the first warning. One in 45 of them has one.
WARNING = {"ensemble-error": 500}


def check(attest, subject, law, cases, *words):
    done = subprocess.run([*attest, subject, "--property", law, "--seed", "1", "--cases", str(cases), "--json", "-",
                           *words], capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"attest check {subject} --property {law}: exit status {done.returncode}: {done.stderr}")
    return done.returncode, json.loads(done.stdout)


def finds(attest, law, fault, cases):
    status, summary = check(attest, fault, law, WARNING.get(law, cases), "--shrink-budget", "1")
    found = [finding["property"] for finding in summary["findings"]]
    if law in WARNING:
        warned = status == 0 and not found and summary["verdicts"][law]["warn"] > 0
        return (summary["cases"], None) if warned else (None, f"{law} does not warn of {fault}: status {status}, {found}")
    # A statistic may be shrunk to what the policy bound proves.
    if status != 1 or not set(found) <= {law, "policy-bound"}:
        return None, f"{law} does not find {fault} in {summary['cases']} problems: status {status}, found by {found}"
    return summary["findings"][0]["cases_to_first"], None


def leaves_alone(attest, law, kernel, cases, policies):
    executed = 0
    for policy in policies:
        status, summary = check(attest, f"builtin:{kernel}", law, cases, "--policy", policy)
        executed += summary["executed"]
        applies_nowhere = status == 5 and summary["executed"] == 0
        if status != 0 and not applies_nowhere:
            reruns = [finding["rerun"] for finding in summary["findings"]]
            return executed, f"{law} blames builtin:{kernel} under {policy}: status {status}, {reruns}"
    if executed == 0:
        return 0, f"{law} never had anything to judge in builtin:{kernel}"
    return executed, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attest")
    parser.add_argument("cheats", help="the plug-in of tests/subjects/plugins/cheats.c")
    parser.add_argument("--cases", type=int, default=3000, help="problems in which a fault must be found (%(default)s)")
    parser.add_argument("--clean-cases", type=int, default=300, help="problems a policy that hold (%(default)s)")
    parser.add_argument("--policies", default="f32,f16-all", help="of the conforming kernel (%(default)s)")
    parser.add_argument("--laws", help="these alone, separated by commas")
    parser.add_argument("--kernels", help="instead of the table's, separated by commas")
    parser.add_argument("--jobs", default="2", help="threads (%(default)s)")
    arguments = parser.parse_args()
    attest, policies = [arguments.attest, "check", "--jobs", arguments.jobs], arguments.policies.split(",")
    listed = subprocess.check_output([arguments.attest, "list", "properties", "--json", "-"])
    known = [row["name"] for row in json.loads(listed)]
    failures = [f"law {law} has no line in this test" for law in known if law not in LAWS]
    failures += [f"there is no law {law}" for law in LAWS if law not in known]
    print(f"{'law':<24}{'fault':<22}{'problems':>9}   {'conforming':<20}{'held':>9}")
    for law in known:
        if law not in LAWS or (arguments.laws and law not in arguments.laws.split(",")):
            continue
        fault, usual = LAWS[law]
        subject = f"{arguments.cheats}:{fault}" if fault.startswith("kept-by") else f"fault:{fault}"
        problems, missed = finds(attest, law, subject, arguments.cases)
        failures += [missed] if missed else []
        for kernel in arguments.kernels.split(",") if arguments.kernels else [usual]:
            held, blamed = leaves_alone(attest, law, kernel, arguments.clean_cases, policies)
            failures += [blamed] if blamed else []
            print(f"{law:<24}{fault:<22}{problems or '-':>9}   {kernel:<20}{held:>9}", flush=True)
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
