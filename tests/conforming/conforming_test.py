#!/usr/bin/env python3
"""No conforming kernel is blamed: builtin:fused under every named policy, every variant under every policy and, on a fifth
of the problems, under mixtures of them.

Usage: conforming_test.py ATTEST [--cases N] [--variant-cases N] [--block-sizes S] [--laws K] [--seed S] [--json F].
Prints, per policy, what was drawn and judged and what became of the rest; fails on any finding, and where too few problems
are judged for the test to mean anything.
"""
import argparse
import collections
import json
import subprocess
import sys
from pathlib import Path

# Narrow formats leave more elements undetermined or with an enclosure as wide as the values.
LEAST_JUDGED = {"f32": 0.9, "f64": 0.9, "f16": 0.9, "bf16": 0.9}
LEAST_JUDGED_NARROW = 0.6
# Stages of different families meet: tf32 operands, exponents that do not fit, one stage wider or narrower than its neighbours.
# Policies of layer_norm: those with names, and stages that differ.
MHA = ["f16,gemm=f16", "bf16,gemm=bf16", "f32,gemm=f64"]  # beside those that have names
LAYER_NORM = ["f32", "f64", "f16", "bf16", "f16-all", "bf16-all", "f16,statistics=f16", "bf16,affine=bf16"]
MIXTURES = ["f32,operand=tf32", "*=bf16,storage=f16", "f16,partial=bf16", "f16,qk=f64", "f32,weights=f16"]


def names(attest, what):
    return [row["name"] for row in json.loads(subprocess.check_output([attest, "list", what, "--json", "-"]))]


def check(attest, subject, policy, cases, sizes, laws, seed):
    words = ["check", subject, "--policy", policy, "--cases", cases, "--sizes", sizes, "--laws", laws, "--seed", seed,
             "--continue-after-failure", "--json", "-"]
    done = subprocess.run([attest, *map(str, words)], capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"attest {' '.join(map(str, words))}: exit status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


class Total:
    def __init__(self):
        self.sums = collections.Counter()
        self.causes = collections.Counter()
        self.failures = []

    def add(self, subject, policy, summary):
        for key in ("cases", "executed", "judged", "judged_long", "elements", "elements_long", "undetermined"):
            self.sums[key] += summary[key]
        self.sums["seconds"] += summary["seconds"]
        self.causes.update(summary["vacuous"])
        self.causes.update(summary["skipped"])
        for finding in summary["findings"]:
            self.failures.append(f"{subject}, policy {policy}: {finding['property']}: {finding['rerun']}")
        if summary["exit"] != 0 and not summary["findings"]:
            self.failures.append(f"{subject}, policy {policy}: exit status {summary['exit']}")
        share = summary["judged"] / summary["cases"]
        least = LEAST_JUDGED.get(policy, LEAST_JUDGED_NARROW)
        if subject.startswith("builtin:mha-"):  # with one token every enclosure holds the hull, which is a point
            least -= 0.1
        if summary["cases"] >= 50 and not share > least:  # a share of fewer says nothing
            self.failures.append(f"{subject}, policy {policy}: {100 * share:.1f} % judged, not above {100 * least:.0f} %")

    def line(self, name):
        s = self.sums
        causes = ", ".join(f"{cause} {count:,}" for cause, count in self.causes.most_common())
        print(f"{name:<20}{s['cases']:>10,}{100 * s['judged'] / s['cases']:>9.1f}{s['elements']:>15,}"
              f"{s['elements_long']:>12,}{s['undetermined']:>12,}{s['seconds']:>8.0f}   {causes}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attest")
    parser.add_argument("--cases", type=int, default=50_000, help="problems per named policy (%(default)s)")
    parser.add_argument("--variant-cases", type=int, default=5_000, help="problems per variant and policy (%(default)s)")
    parser.add_argument("--block-sizes", default="both", help="of the problems of blocks, as check's --sizes (%(default)s)")
    parser.add_argument("--laws", default=2, help="laws a problem beside the policy bound (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of every campaign (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the sums there")
    arguments = parser.parse_args()
    policies, variants = names(arguments.attest, "policies"), names(arguments.attest, "subjects")
    of_layer_norm = [name for name in variants if name.startswith("builtin:ln-")]
    of_mha = [name for name in variants if name.startswith("builtin:mha-")]
    variants = [name for name in variants if name.startswith("builtin:") and name not in of_layer_norm + of_mha]
    everything = Total()

    def sweep(title, subjects, policies, cases, sizes="both"):
        if cases == 0:
            return
        print(f"{title}\n{'policy':<20}{'problems':>10}{'judged %':>9}{'elements':>15}{'Lk >= 256':>12}"
              f"{'undeterm.':>12}{'seconds':>8}   problems without a verdict of the bound")
        for policy in policies:
            total = Total()
            for subject in subjects:
                summary = check(arguments.attest, subject, policy, cases, sizes, arguments.laws, arguments.seed)
                total.add(subject, policy, summary)
                everything.add(subject, policy, summary)
            total.line(policy)

    sweep("builtin:fused", ["builtin:fused"], policies, arguments.cases)
    sweep(f"each of {len(variants)} variants", variants, policies, arguments.variant_cases)
    sweep("the variants under mixtures", variants, MIXTURES, arguments.variant_cases // 5)
    sweep("each kernel of layer_norm", of_layer_norm, LAYER_NORM, arguments.variant_cases)
    sweep("each attention block", of_mha, policies + MHA, arguments.variant_cases // 5, arguments.block_sizes)
    everything.line("all")
    if arguments.json:
        arguments.json.write_text(json.dumps(dict(everything.sums), indent=1) + "\n")
    for failure in everything.failures:
        print("FAILED", failure)
    if not policies or not variants:
        print("FAILED no policies or no variants are listed")
        return 1
    return 1 if everything.failures else 0


if __name__ == "__main__":
    sys.exit(main())
