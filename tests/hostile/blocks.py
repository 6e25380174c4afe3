"""A campaign of attention blocks (op mha): contracts at random over every number that docs/mha.md names, no finding allowed.

    blocks.py ATTEST HOSTILE.SO [--seed N] [--trials N | --trial N] [--elements N] [--seconds N] [--cases N]

Works as campaign.py, with its attention inside a block. One output of each sample and row is aimed at: every rounding, every ulp
and every order takes the side that moves it farthest. Such orders look at numbers, which the contract says (`order`).
"""

import argparse
import json
import random
import sys

from campaign import PLAIN, Tally, check, policies_of
from contracts import PRECISION, STAGES, Trial, draw_mma, draw_blocks, draw_summation, draw_trial

STATISTICS = {"ensemble-error"}
DOMAINS = ["e <= 16 && l <= 8 && m <= 8", "e <= 8 && l <= 16 && m <= 16 && head_dim <= 8", "e <= 64 && l <= 4 && m <= 16 && heads <= 4",
           "e <= 32 && heads * head_dim <= 32 && l * b <= 16 && m <= 32", "e <= 4 && head_dim <= 4 && m <= 64 && l <= 8",
           "e <= 64 && l <= 2 && m <= 4 && head_dim <= 16"]
PLAIN |= {"gemm_sum": "forward", "gemm_first": 0, "bias_first": 0, "heads_to_f32": 0, "reciprocal_sum": 0, "goal": 1}


class Block(Trial):
    def __init__(self, contract, stages, scheme, seed, given, dims=None):
        super().__init__(contract, stages, scheme, seed)
        self.given, self.dims = given, dims or {}

    def describe(self):
        return json.dumps({"ops": ["mha"], "dtypes": [self.stages["storage"]], "concurrent": True,
                           "supports": {"stages": self.given, "dims": self.dims}, "contract": self.contract})

    def with_scheme(self, **changes):
        return Block(self.contract, self.stages, {**self.scheme, **changes}, self.seed, self.given, self.dims)


def draw_block(random, policies):
    """A contract of a block and a scheme that takes it to its ends."""
    trial = draw_trial(random, policies, random.random() < 0.3)
    contract, stages, scheme = trial.contract, dict(trial.stages), trial.scheme
    for word in ("softcap_before_bias", "tanh", "tanh_ulp"):
        contract.pop(word, None)
    # The gemm: that of q.k unless the policy says otherwise.
    stages["gemm"] = stages["qk"]
    if random.random() < 0.3:
        stages["gemm"] = random.choice(["f16", "bf16", "f32", "f32", "f64"])
        contract["policy"] += f",gemm={stages['gemm']}"
    kappa, mma = contract.get("kappa", 1), None
    if "mma" in contract:
        from contracts import GENERATIONS
        said = contract["mma"]
        mma = GENERATIONS[said] + (False,) if isinstance(said, str) else (said["block"], said["frac"], said["out"], said["only"])
    loose = "deterministic" not in contract
    freely = ["rising", "falling", "by_value", "greedy", "greedy", "greedy:1:signs", "greedy:1:signs"] if loose else []
    # f16 is no result of a unit for a wider gemm; each term may begin a block, since nobody says where a product is split.
    scheme["gemm_sum"] = draw_summation(random, kappa, freely)
    if mma:
        block, *rest = mma
        scheme["gemm_sum"] += draw_blocks(random, (random.choice([1, 1, block]), *rest), True)
    elif random.random() < 0.5:
        contract["gemm_chain"] = chain = random.choice(
            [1, 2, 3, 4, 5, 8, 16, {"lanes": 1, "block": 4}, {"lanes": 4, "block": 1}, {"lanes": 8, "block": 1}, {"lanes": 2, "block": 2},
             {"lanes": 32, "block": 1}])
        if isinstance(chain, int):
            scheme["gemm_chain"] = chain
        else:
            scheme["gemm_lanes"], scheme["gemm_block"] = chain["lanes"], chain["block"]
    ways = random.sample(["rounded", "unrounded", "separate"], random.choice([1, 1, 1, 2, 3]))
    if ways != ["rounded"] or random.random() < 0.5:
        contract["projections"] = ways if len(ways) > 1 else ways[0]
    scheme["projections"] = random.choice(ways)
    ways = random.choice([["rounded"], ["unrounded"], ["rounded", "unrounded"]])
    if ways != ["rounded"] or random.random() < 0.5:
        contract["heads"] = ways if len(ways) > 1 else ways[0]
    scheme["heads_rounded"] = int(random.choice(ways) == "rounded")
    scheme["heads_to_f32"] = random.randint(0, 1)
    if random.random() < 0.2:
        contract["drops_b_k"] = True
        scheme["drop_b_k"] = 1
    scheme["gemm_first"], scheme["bias_first"] = random.randint(0, 1), random.randint(0, 1)
    scheme["goal"] = random.choice([-1, 1])
    # The quotient of a head is one of pv's format, of softmax's only the reciprocal of the sum.
    scheme["narrow_division"] = 1
    scheme["reciprocal_sum"] = int(random.random() < 0.3)
    if loose:
        contract["order"] = "values"
        for side in ("exp_side", "rescale_side", "div_side"):
            if random.random() < 0.7:
                scheme[side] = "goal"
        for what in ("dot", "sum", "product"):
            if "+blocks" not in scheme[what] and random.random() < 0.6:
                scheme[what] = random.choice(["greedy", "greedy:1:signs", "greedy:4"]) + "".join("+" + word for word in scheme[what].split("+")[1:])
    given = [stage for stage in ("q", "k", "v", "heads") if random.random() < 0.5]
    return Block(contract, stages, scheme, trial.seed, given)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("attest")
    parser.add_argument("plugin")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=1 << 30)
    parser.add_argument("--trial", type=int, default=None, help="this one alone")
    parser.add_argument("--elements", type=float, default=float("inf"), help="ends once so many were judged")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--cases", type=int, default=400, help="problems of a contract; a fifth under all laws")
    parser.add_argument("--findings", default=None, help="a file for lines of JSON")
    options = parser.parse_args()
    policies = policies_of(options.attest)
    tally = Tally()
    for number in range(options.trials) if options.trial is None else [options.trial]:
        if tally.judged() >= options.elements or tally.seconds() > options.seconds:
            break
        source = random.Random(f"blocks:{options.seed}:{number}")
        trial = draw_block(source, policies)
        every = source.random() < 0.3
        words = ["--seed", str(source.getrandbits(32)), "--cases", str(max(1, options.cases // 5) if every else options.cases),
                 "--laws", "all" if every else "1", "--continue-after-failure", "--shrink-budget", "60", "--assume", source.choice(DOMAINS)]
        report, errors = check(options.attest, options.plugin, trial, words)
        if report is None:
            tally.refuse(errors)
            continue
        tally.add(trial.contract["policy"] if trial.contract["policy"] in policies else "other", report)
        for finding in report["findings"]:
            tally.blame(number, trial, finding, options)
    return tally.tell()


if __name__ == "__main__":
    sys.exit(main())
