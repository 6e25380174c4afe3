"""The hostile kernel one step past each number of its contract: every one must be found, or it tries nothing.

    beyond.py ATTEST HOSTILE.SO [--op attention|mha] [--only NAME]

Each line is a narrow contract, in formats that show the number, and a scheme that leaves it in one place alone.
"""

import argparse
import sys

from blocks import Block, STATISTICS
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


# A block's numbers that docs/mha.md adds, and attention's where projections are exact.
EXACT = "weights == one_hot || weights == power_of_two"


def block_cases():
    greedy = {"gemm_sum": "greedy", "goal": 1}
    yield "gemm in f16", "f32", {}, greedy, {"gemm": "f16"}, "e <= 32 && l * b <= 256 && m <= 8"
    yield "gemm in bf16", "f16", {}, greedy, {"gemm": "bf16"}, "e <= 32 && l * b <= 256 && m <= 8"
    yield "gemm of a wider policy", "f16,qk=f16,gemm=f32", {}, greedy, {"gemm": "f16"}, "e <= 64 && l * b <= 4 && m <= 8"
    # A chain shows where many terms of one sign come first.
    signs = {"gemm_sum": "greedy:1:signs", "goal": 1}
    long = {"e": [256, 256, 1], "l": [1, 1, 1], "m": [1, 2, 1], "heads": [1, 1, 1], "head_dim": [1, 4, 1]}
    yield "gemm_chain", "f16,gemm=f16", {"gemm_chain": 8}, {**signs, "gemm_chain": 8}, {"gemm_chain": 0}, "weights == dense_in", long
    yield ("gemm_chain of lanes", "f16,gemm=f16", {"gemm_chain": {"lanes": 64, "block": 1}},
           {**signs, "gemm_lanes": 64, "gemm_block": 1}, {"gemm_lanes": 1}, "weights == dense_in", long)
    truncated = {what: "forward+truncate" for what in ("gemm_sum", "dot", "product")}
    yield "kappa", "f16,gemm=f16", {}, {}, truncated, "e <= 3 && head_dim <= 4 && m <= 4 && weights == dense"
    ampere = {"gemm_sum": "forward+blocks:8:24:23:chained:busy:0"}
    yield ("mma, bits", "f32", {"mma": "8/24/f32"}, ampere, {"gemm_sum": "forward+blocks:8:18:23:chained:busy:0"},
           "e <= 64 && l * b <= 4 && m <= 8 && weights == dense_in")
    yield "projections, separate", "f16", {}, {}, {"projections": "separate"}, "biases == all && e <= 32 && m <= 8"
    yield "projections, rounded", "f16", {"projections": "separate"}, {"projections": "separate"}, {"projections": "rounded"}, "biases == all && e <= 32 && m <= 8"
    yield "projections, unrounded", "f16", {"projections": "unrounded"}, {"projections": "unrounded"}, {"projections": "rounded"}, "weights == dense_in && e <= 32 && m <= 8"
    yield "heads, rounded", "f16", {}, {}, {"heads_rounded": 0}, "e <= 32 && m <= 8"
    yield "heads, unrounded", "bf16", {"heads": "unrounded"}, {"heads_rounded": 0}, {"heads_rounded": 1}, "e <= 32 && m <= 8"
    yield "drops_b_k", "f16", {"drops_b_k": True}, {"drop_b_k": 1}, {"drop_b_k": 0}, "biases == all && e <= 32 && m <= 8"
    yield "b_k", "f16", {}, {}, {"drop_b_k": 1}, "biases == all && e <= 32 && m <= 8"
    yield "exp_ulp", "f32", {}, {"exp_side": "goal"}, {"exp_ulp": 64}, f"({EXACT}) && m >= 2"
    yield "exp_rel", "f16", {"exp_rel": 1e-4}, {"exp_side": "goal", "exp_rel": 1e-4}, {"exp_rel": 1e-2}, f"({EXACT}) && m >= 2"
    yield "div_ulp", "f32", {}, {"div_side": "goal"}, {"div_ulp": 32}, f"({EXACT}) && e <= 32 && m <= 8"
    yield "normalise", "f32,weights=bf16", {}, {}, {"normalise": "before"}, f"({EXACT}) && m >= 2"
    yield "sum_of", "f32,weights=bf16", {"sum_of": ["rounded"]}, {"sum_rounded": 1}, {"sum_rounded": 0}, f"({EXACT}) && m >= 2"
    yield "flush_to_zero", "f16-all", {}, {}, {"flush": 127}, "e <= 32 && m <= 8"
    for stage in ("operand", "scale", "qk", "score", "softmax", "weights", "pv", "output"):
        yield f"{stage} in bf16", "f32", {"gemm_chain": 64}, {}, {stage: "bf16"}, f"({EXACT}) && e <= 32 && m <= 8"


def formats(policies, text):
    """Stage formats of NAME,STAGE=FORMAT,..."""
    name, *changes = text.split(",")
    stages = dict(policies[name])
    for change in changes:
        stage, format = change.split("=")
        stages[stage] = format
    stages.setdefault("gemm", stages["qk"])
    return stages


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("attest")
    parser.add_argument("plugin")
    parser.add_argument("--op", choices=("attention", "mha"), default="attention")
    parser.add_argument("--only", default="")
    parser.add_argument("--cases", default="400")
    options = parser.parse_args()
    policies = policies_of(options.attest)
    wrong = 0
    for name, policy, promised, within, beyond, domain, *dims in cases() if options.op == "attention" else block_cases():
        if options.only not in name:
            continue
        stages = formats(policies, policy)
        contract = {**NARROW, **promised, "policy": policy}
        findings = []
        for scheme in (within, {**within, **beyond}):
            moved = {stage: format for stage, format in scheme.items() if stage in stages}
            rest = {key: value for key, value in scheme.items() if key not in stages}
            trial = Trial(contract, {**stages, **moved}, rest, 1)
            if options.op == "mha":
                trial = Block(contract, trial.stages, rest, 1, ["q", "k", "v", "heads"], *dims)
            report, errors = check(options.attest, options.plugin, trial,
                                   ["--seed", "1", "--cases", options.cases, "--shrink-budget", "1", "--assume", domain])
            if report is None:
                print(errors)
                return 3
            findings.append({finding["property"] for finding in report["findings"]} - (STATISTICS if options.op == "mha" else set()))
            warned = {law for law, counts in report["verdicts"].items() if counts["warn"] > 0}
        kept, left = findings
        left = left or (warned if options.op == "attention" else set())  # statistics warn
        verdict = "as it should be" if left and not kept else "BLAMED within the contract" if kept else "NOT FOUND beyond it"
        wrong += not left or bool(kept)
        print(f"{name:20} {verdict:28} {', '.join(sorted(kept or left))}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
