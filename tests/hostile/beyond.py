"""The hostile kernel one step past each number of its contract: every one must be found, or it tries nothing.

    beyond.py ATTEST HOSTILE.SO [--only NAME]

Each line is a narrow contract, in formats that show the number, and a scheme that leaves it in one place alone.
"""

import argparse
import sys

from campaign import check, policies_of
from contracts import Trial

NARROW = {"exp2": False, "fold": "none", "lazy": 0, "lse_merge": "none", "normalise": ["after"], "sum_of": ["unrounded"],
          "kv_tile_min": 64, "key_order": "ascending", "empty_row": "zero"}
SMALL = "lk <= 16 && d <= 8"


def cases():
    """name, policy, changes to the contract, scheme within, changes that leave it, assumption."""
    up = {"exp_side": "up"}
    yield "exp_ulp", "f32", {}, up, {"exp_ulp": 64}, SMALL
    yield "exp_ulp of 3", "f32", {"exp_ulp": 3}, {**up, "exp_ulp": 3}, {"exp_ulp": 100}, SMALL
    yield "exp_rel", "f16", {"exp_rel": 1e-3}, {**up, "exp_rel": 1e-3}, {"exp_rel": 1e-2}, SMALL
    yield "div_ulp", "f32", {}, {"div_side": "up"}, {"div_ulp": 16}, SMALL
    yield "tanh_ulp", "f32", {}, {"tanh_side": "up"}, {"tanh_ulp": 400}, "softcap > 0 && " + SMALL
    yield ("tanh absolute", "f32", {"tanh_ulp": 1}, {"tanh_side": "up", "tanh_ulp": 1},
           {"tanh_absolute": 1, "tanh_ulp": 1000}, "softcap > 0 && " + SMALL)
    yield "kappa", "f16-acc16", {}, {}, {"product": "forward+truncate", "dot": "forward+truncate"}, "d <= 4 && lk >= 64"
    ampere = {"dot": "forward+blocks:8:24:23:chained:busy:0", "product": "forward+blocks:8:24:23:chained:busy:0"}
    less = {what: words.replace(":24:", ":20:") for what, words in ampere.items()}
    yield "mma, bits", "f32", {"mma": "8/24/f32/only"}, ampere, less, "d <= 4 && lk >= 64"
    rounder = {what: words.replace(":23:", ":13:") for what, words in ampere.items()}
    yield "mma, result", "f32", {"mma": "8/24/f32/only"}, ampere, rounder, "lk <= 8 && d >= 8"
    yield "lazy", "f16-softmax16", {}, {"tile": 1}, {"keep_shift": 1, "lazy": 11}, "lk >= 4 && d <= 8"
    yield "fold", "f32,scale=bf16", {}, {}, {"fold": "q"}, "d >= 2 && lk <= 8"
    yield "exp2", "f16-acc16", {"fold": ["q"]}, {}, {"power": "folded"}, "bias == lowest && softcap == 0 && " + SMALL
    yield ("lse_merge", "f32,partial=bf16", {}, {"tile": 64}, {"merge": "flat", "splits": 2, "tile": 1},
           "lk >= 2 && " + SMALL)
    yield ("splits_max", "f32,partial=bf16", {"lse_merge": "chain", "splits_max": 2, "kv_tile_min": 1},
           {"merge": "chain", "splits": 2, "tile": 1}, {"splits": 64}, "lk >= 16 && d <= 4")
    yield "normalise", "f32,weights=bf16", {}, {}, {"normalise": "before"}, SMALL
    yield "sum_of", "f32,weights=bf16", {"sum_of": ["rounded"]}, {"sum_rounded": 1}, {"sum_rounded": 0}, SMALL
    yield ("kv_tile_min", "f32", {"exp_ulp": 256, "key_order": "any"}, {"exp_ulp": 256, "rescale_side": "up"}, {"tile": 1},
           "values == rising && lk >= 16 && lk <= 64 && d <= 8")
    yield "flush_to_zero", "f16-all", {}, {}, {"flush": 127}, SMALL
    for stage in ("operand", "scale", "qk", "score", "softcap", "softmax", "weights", "pv", "output"):
        yield f"{stage} in bf16", "f32", {}, {}, {stage: "bf16"}, "softcap > 0 && " + SMALL if stage == "softcap" else SMALL


def formats(policies, text):
    """Stage formats of NAME,STAGE=FORMAT,..."""
    name, *changes = text.split(",")
    stages = dict(policies[name])
    for change in changes:
        stage, stages[stage] = change.split("=")
    return stages


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("attest")
    parser.add_argument("plugin")
    parser.add_argument("--only", default="")
    parser.add_argument("--cases", default="400")
    options = parser.parse_args()
    policies = policies_of(options.attest)
    wrong = 0
    for name, policy, promised, within, beyond, domain in cases():
        if options.only not in name:
            continue
        stages = formats(policies, policy)
        contract = {**NARROW, **promised, "policy": policy}
        findings = []
        for scheme in (within, {**within, **beyond}):
            moved = {stage: format for stage, format in scheme.items() if stage in stages}
            rest = {key: value for key, value in scheme.items() if key not in stages}
            trial = Trial(contract, {**stages, **moved}, rest, 1)
            report, errors = check(options.attest, options.plugin, trial,
                                   ["--seed", "1", "--cases", options.cases, "--shrink-budget", "1", "--assume", domain])
            if report is None:
                print(errors)
                return 3
            findings.append({finding["property"] for finding in report["findings"]})
        kept, left = findings
        verdict = "as it should be" if left and not kept else "BLAMED within the contract" if kept else "NOT FOUND beyond it"
        wrong += not left or bool(kept)
        print(f"{name:20} {verdict:28} {', '.join(sorted(kept or left))}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
