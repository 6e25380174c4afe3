"""Contracts drawn at random, and for each a scheme of the hostile kernel that takes what the contract permits.

README.md quotes the sentence that grants each liberty.
"""

import json
import math
from random import Random

STAGES = ("storage", "operand", "scale", "qk", "score", "softcap", "softmax", "weights", "pv", "partial", "output")
PRECISION = {"f16": 11, "bf16": 8, "tf32": 11, "f32": 24, "f64": 53}
DEFAULT_LAZY = 8 * math.log(2)
SIDES = ("nearest", "up", "down", "alternate", "hashed")
FLUSHES = {"inputs": 1, "score": 2, "softmax": 4, "sums": 8, "output": 16, "bias": 32, "scale": 64}


class Trial:
    """A contract, the formats of its policy, and a scheme: words that only the kernel reads."""

    def __init__(self, contract, stages, scheme, seed):
        self.contract, self.stages, self.scheme, self.seed = contract, stages, scheme, seed

    def describe(self):
        return json.dumps({"ops": ["attention"], "dtypes": [self.stages["storage"]], "concurrent": True,
                           "supports": {"stages": []}, "contract": self.contract})

    def words(self):
        words = dict(self.stages)
        words.update(self.scheme)
        return " ".join(f"{key}={value}" for key, value in words.items())

    def with_scheme(self, **changes):
        return Trial(self.contract, self.stages, {**self.scheme, **changes}, self.seed)


def draw_policy(random, policies, mixed):
    """A named policy, or one with a few stages in formats of their own."""
    name = random.choice(sorted(policies))
    stages = dict(policies[name])
    if not mixed:
        return name, stages
    if random.random() < 0.3:
        stages = {stage: random.choice(("f16", "bf16", "f32")) for stage in STAGES}
        stages["storage"] = random.choice(("f16", "bf16", "f32"))
        if random.random() < 0.7:
            stages["operand"] = stages["storage"]
    else:
        for stage in random.sample(STAGES[1:], random.choice((1, 1, 2, 3))):
            stages[stage] = random.choice(("f16", "bf16", "tf32", "f32", "f64"))
    if PRECISION[stages["operand"]] > PRECISION[stages["storage"]]:
        stages["operand"] = stages["storage"]
    if stages["output"] == "f64" or PRECISION[stages["output"]] > PRECISION[stages["storage"]]:
        stages["output"] = stages["storage"]
    return ",".join(f"{stage}={stages[stage]}" for stage in STAGES), stages


def draw_summation(random, kappa, sorted_):
    order = random.choice(["forward", "backward", "pairs", f"lanes:{1 << random.randint(1, 6)}",
                           f"lanes:{random.randint(2, 64)}:pairs"] + sorted_)
    order += "+fma" if random.random() < 0.4 else ""
    return order + ("+truncate" if kappa >= 3 and random.random() < 0.8 else "")


FRACTION = {"f32": 23, "e8m13": 13, "f16": 10}
GENERATIONS = {"volta": (4, 23, "f32"), "turing": (8, 24, "f32"), "ampere": (8, 24, "f32"), "hopper": (8, 25, "f32"),
               "blackwell": (8, 25, "f32"), "ada-fp8": (16, 13, "e8m13"), "hopper-fp8": (32, 13, "e8m13"), "cdna3": (4, 24, "f32")}


def draw_mma(random, stages):
    """A contract's words on tensor cores, and their (block, frac, out, only)."""
    if random.random() < 0.6:
        name = random.choice(sorted(GENERATIONS))
        return name, GENERATIONS[name] + (False,)  # in f32 a contract's blocks are no larger
    outs = ["f32", "f32", "e8m13"] + (["f16", "f16"] if stages["qk"] == stages["pv"] == "f16" else [])
    block, frac, out = random.choice([1, 2, 3, 4, 8, 16]), random.randint(4, 35), random.choice(outs)
    only = random.random() < 0.5
    return {"block": block, "frac": frac, "out": out, "only": only}, (block, frac, out, only)


def draw_blocks(random, mma, must):
    """A summation's blocks: at least as large as the contract's."""
    block, frac, out, only = mma
    if not (must and only) and random.random() < 0.2:
        return ""
    joining = random.choice(["chained", "apart"] if must and only else ["chained", "apart", "some"])
    return (f"+blocks:{block * random.choice([1, 1, 1, 2, 4])}:{frac}:{FRACTION[out]}:{joining}:"
            f"{random.choice(['idle', 'busy'])}:{random.choice([0, 0, 1, 6])}")


def draw_trial(random, policies, mixed=False, without=()):
    contract, scheme = {}, {}
    contract["policy"], stages = draw_policy(random, policies, mixed)
    half_sums = "f16" in (stages["softmax"], stages["pv"])

    # The promises about results.
    contract["empty_row"] = random.choice(["zero", "nan", "mean_v", "unspecified"])
    unspecified = contract["empty_row"] == "unspecified"
    scheme["empty"] = random.choice(["zero", "nan", "mean_v"]) if unspecified else contract["empty_row"]
    deterministic = random.choice([None, None, "rerun", "threads"])
    if deterministic:
        contract["deterministic"] = deterministic
    batch = random.choice([None, "bitwise", "bounded"])
    if batch:
        contract["batch_invariant"] = batch
    if random.random() < 0.5:
        contract["nan"] = random.choice(["propagates", "unspecified"])
    touch = random.random() < 0.3
    if not touch and random.random() < 0.7:
        contract["masked_unread"] = True
    adds = Random()  # so that the other contracts stay what they were
    adds.setstate(random.getstate())
    scheme["mask_added"] = 0
    if "masked_unread" not in contract and adds.random() < 0.5:
        contract["mask_added"] = True
        scheme["mask_added"] = int(adds.random() < 0.7)
    scheme["touch_masked"] = int(touch)
    if random.random() < 0.3:
        contract["softcap_before_bias"] = random.random() < 0.5
    scheme["softcap_before_bias"] = int(contract.get("softcap_before_bias", True))
    modest = "slack" in without
    kappa = 1 if "kappa" in without or modest else random.choice([1, 1, 1, 3])
    if kappa != 1:
        contract["kappa"] = kappa
    aside = Random()  # so that contracts without tensor cores stay what they were
    aside.setstate(random.getstate())
    mma = None
    if kappa == 1 and "mma" not in without and aside.random() < 0.4:
        contract["mma"], mma = draw_mma(aside, stages)
    flush = random.random() < 0.2
    if flush:
        contract["flush_to_zero"] = True
        scheme["flush"] = sum(bit for bit in FLUSHES.values() if random.random() < 0.5)
    # Orders and functions that look at the numbers, which a contract then says (`order`: `values`).
    looks = flush or kappa != 1 or mma is not None
    by_value = looks and deterministic is None

    # Functions.
    side = lambda: random.choice(SIDES + (("mean", "mean") if by_value else ()))
    most_ulp = 0.95 * 2 ** (PRECISION[stages["softmax"]] - 1)  # beyond, exp may be 0: no promise at all
    if modest:
        most_ulp = min(most_ulp, 4)
    if random.random() < 0.2 and not modest:
        relative = random.choice([1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.4, 0.5])
        contract["exp_rel"] = relative
        scheme["exp_rel"] = relative
    else:
        ulps = min(random.choice([1, 1, 1, 1.5, 2, 3.7, 20, 125, 1024]), most_ulp)
        if ulps != 1:
            contract["exp_ulp"] = ulps
        scheme["exp_ulp"] = ulps
    scheme["exp_side"] = side()
    scheme["rescale_side"] = random.choice([scheme["exp_side"], side(), "up", "down"])
    ulps = min(random.choice([0.5, 0.5, 0.5, 1, 1.5, 2, 8, 64, 1024]),
               0.2 * 2 ** (min(PRECISION[stages["softmax"]], PRECISION[stages["pv"]]) - 1), most_ulp)
    ulps = 0.5 if "div" in without else max(ulps, 0.5)
    if ulps != 0.5:
        contract["div_ulp"] = ulps
        scheme["div_ulp"] = ulps
        scheme["div_side"] = side()
    ulps = min(random.choice([4, 4, 4, 0.5, 1, 16, 100, 1000]), 0.4 * 2 ** (PRECISION[stages["softcap"]] - 1))
    ulps = min(ulps, 4) if modest else ulps
    if ulps != 4:
        contract["tanh_ulp"] = ulps
    scheme["tanh_ulp"] = ulps
    if random.random() < 0.3 and not modest:
        contract["tanh"] = "absolute"
        scheme["tanh_absolute"] = 1
    scheme["tanh_side"] = side()
    scheme["off_subnormals"] = 0 if "subnormals" in without else random.randint(0, 1)
    scheme["reciprocal_cap"] = random.randint(0, 1)

    # The scale and the base of the power.
    folds = ["q", "k", "sqrt"]
    if random.random() < 0.4:
        folds = random.sample(folds, random.randint(0, 2))
        contract["fold"] = folds if folds else "none"
    scheme["fold"] = random.choice(["score"] + folds + folds)
    exp2 = random.choice([None, None, True, False])
    if exp2 is not None:
        contract["exp2"] = exp2
    powers = ["none", "none", "argument", "both", "fused", "unscaled"] + (["folded"] if folds else [])
    scheme["power"] = "none" if exp2 is False else random.choice(powers)
    for word in ("round_log2e", "round_operand_first", "root_of_rounded", "store_unscaled", "fold_enters_operand"):
        scheme[word] = random.randint(0, 1)
    # A factor that carries the scale is rounded to operand once (plugin.md, fold).
    if stages["operand"] not in (stages["storage"], stages["scale"]) and scheme["fold_enters_operand"]:
        scheme["round_operand_first"] = 0

    # Sums.
    by_scores = ["rising", "falling"] if looks else []
    freely = ["rising", "falling", "by_value"] if by_value else []
    scheme["dot"] = draw_summation(random, kappa, freely)
    scheme["sum"] = draw_summation(random, kappa, by_scores)
    scheme["product"] = draw_summation(random, kappa, freely or by_scores)
    if mma:
        for what in ("dot", "sum", "product"):
            scheme[what] += draw_blocks(aside, mma, what != "sum")
    if random.random() < 0.4:
        contract["sum_of"] = random.choice([["rounded"], ["unrounded"], ["rounded", "unrounded"]])
    scheme["sum_rounded"] = int(random.choice(contract.get("sum_of", ["rounded", "unrounded"])) == "rounded")
    scheme["sum_operand"] = random.randint(0, 1)
    if random.random() < 0.5:
        contract["normalise"] = random.choice([["after"], ["before"], ["lse"], ["after", "before"], ["after", "lse"],
                                               ["before", "lse"], ["after", "before", "lse"]])
    scheme["normalise"] = random.choice(contract.get("normalise", ["after", "before"]))
    scheme["two_passes"] = int(scheme["normalise"] == "lse" and random.random() < 0.5)
    if scheme["normalise"] == "before" and "sum_of" in contract:
        # The weights are rounded after the division: their sum is of unrounded ones.
        contract["sum_of"] = ["unrounded"]
    if scheme["normalise"] != "after":
        scheme["sum_rounded"] = 0
        if "sum_of" in contract and "unrounded" not in contract["sum_of"]:
            contract["sum_of"] = ["rounded", "unrounded"]
    if scheme["two_passes"]:
        scheme["normalise"] = "before"
    if scheme["normalise"] == "before" and "before" in without:
        scheme["div_side"] = "nearest"
    scheme["narrow_division"] = random.randint(0, 1)

    # Tiles, their order, splits.
    lazy = 0.0 if half_sums else DEFAULT_LAZY
    if random.random() < 0.5:
        lazy = random.choice([0, 0.5, 1, DEFAULT_LAZY, 10] if not half_sums else [0, 1, 3])
        contract["lazy"] = lazy
    scheme["lazy"] = lazy
    scheme["keep_shift"] = int(lazy > 0 and random.random() < 0.8)
    least = random.choice([1, 1, 1, 2, 4, 16, 64])
    if least != 1:
        contract["kv_tile_min"] = least
    scheme["tile"] = random.choice([least, least, least + 1, 2 * least, 8 * least, 1 << 30])
    order = random.choice([None, None, "any", "ascending", "descending"])
    if order:
        contract["key_order"] = order
    scheme["tiles"] = order if order in ("ascending", "descending") else random.choice(
        ["ascending", "descending", "shuffled"] + (["strided"] if least == 1 else []))
    scheme["add_to_running"] = random.randint(0, 1)
    merge = random.choice([None, None, "none", "flat", "chain"])
    if merge:
        contract["lse_merge"] = merge
    scheme["merge"] = merge or "flat"
    if random.random() < 0.4:
        contract["merge_weights"] = random.choice(["normalised", "lse"])
    scheme["merge_weights_lse"] = int(contract.get("merge_weights", "normalised") == "lse")
    most = random.choice([None, None, 1, 2, 3, 8, 64])
    if most:
        contract["splits_max"] = most
    splits = [1, 1, 2, 3, 8, 64] if most is None else [1, most]
    scheme["splits"] = 1 if merge == "none" else random.choice(splits)
    scheme["contiguous_splits"] = random.randint(0, 1)
    scheme["merge_by_lse"] = random.randint(0, 1)
    scheme["vary"] = random.randint(0, 1)
    words = Random()  # so that what was drawn stays what it was
    words.setstate(random.getstate())
    if words.random() < 0.2:
        contract["fold"], scheme["fold"] = ["score"], "score"
        if exp2 is not False:
            scheme["power"] = words.choice(["folded", "folded", "both", "fused"])
        elif scheme["power"] != "none":
            scheme["power"] = "none"
    if scheme["empty"] == "mean_v" and contract["empty_row"] == "mean_v" and "masked_unread" not in contract and words.random() < 0.6:
        contract["empty_row"] = scheme["empty"] = "mean_all"
    if deterministic is None and words.random() < 0.3:
        # Orders and sides by any number, of which statistics then say nothing.
        contract["order"] = "values"
        for what in ("dot", "sum", "product"):
            order = words.choice(["rising", "falling", "by_value"] if what != "sum" else ["rising", "falling"])
            scheme[what] = "+".join([order] + scheme[what].split("+")[1:])
        for what in ("exp_side", "rescale_side", "div_side"):
            scheme[what] = words.choice(["mean", "up", "down"])
    if "mean" in (scheme[side] for side in scheme if side.endswith("_side")) or "by_value" in scheme["product"] or \
            scheme["dot"].startswith(("rising", "falling", "by_value")):
        contract["order"] = "values"
    seed = random.getrandbits(32)
    scheme["seed"] = seed
    return Trial(contract, stages, scheme, seed)
