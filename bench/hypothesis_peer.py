#!/usr/bin/env python3
"""The loop attest's speed is measured against: Hypothesis draws, NumPy computes and compares.

A problem is drawn from attest's ranges and work bands (multiply-adds W first, then edge-biased
dimensions within it); attention is computed in float32 and in float64 by batched matmul, and the
two are compared once, with a tolerance. It is a friendly peer: the generate phase alone, no
database, no deadline, no health check, tensors from NumPy's generator rather than element by element.

Prints one JSON object. Without options: {"problems", "seconds" (of processor time), "mean_w", "failures"} of what it
draws itself. --replay FILE: the seconds of each of attest's problems in FILE, a JSON array of them, tensors, both
computations and the comparison, but no draw. --draws N: {"seconds"}, what the draw of a problem alone takes.
"""
import argparse
import json
import time

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

MAX_HEADS, MAX_KEYS, MAX_DIM = 65537, 1 << 20, 1024
TILES = (16, 32, 64, 128, 192, 256, 512, 768)
EDGES = sorted({1, 2, 3, 5, 7, 11, 13, 17, 31}
               | {(1 << k) + e for k in range(2, 17) for e in (-1, 0, 1)}
               | {t + e for t in TILES for e in (-1, 0, 1)} | {1 << 17, 1 << 20})
# Hypothesis leans towards small integers and special floats; a choice among 100 it draws evenly.
PERCENT = st.sampled_from(range(100))
# The share of open keys in attest's masks; a mask that is not named here costs as much as a half.
OPEN = {"open": 1.0, "sparse": 0.125, "dense": 0.875}
EXTENTS = ("b", "hq", "hkv", "lq", "lk", "d", "dv")


def dimension(draw, most):
    """1..most: an edge in half of the draws, else log-uniform."""
    if most <= 1:
        return 1
    if draw(st.booleans()):
        return draw(st.sampled_from([e for e in EDGES if e <= most]))
    return min(most, int((most + 1) ** ((draw(PERCENT) + 0.5) / 100)))


@st.composite
def problems(draw, work_bits):
    """A problem with W log-uniform in 2^[work_bits]; without work_bits in attest's bands: up to 2^16 in
    90 % of the problems, to 2^22 in 9.9 %, to 2^28 in 0.1 %."""
    if work_bits is None:
        work_bits = (0, 16 if draw(PERCENT) < 90 else 22 if draw(PERCENT) < 99 else 28)
    low, high = work_bits
    work = int(2.0 ** (low + (draw(PERCENT) + 0.5) / 100 * (high - low)))
    names = draw(st.permutations(("b", "hq", "lq", "lk", "d", "dv")))
    if draw(st.booleans()):
        names = ["lk"] + [n for n in names if n != "lk"]
    p = dict(b=1, hq=1, lq=1, lk=1, d=1, dv=1)
    for name in names:
        rest = work // (p["b"] * p["hq"] * p["lq"] * p["lk"])
        most = {"b": MAX_HEADS, "hq": MAX_HEADS, "lq": MAX_KEYS, "lk": MAX_KEYS}.get(name)
        if most is None:
            most = min(MAX_DIM, rest - p["dv" if name == "d" else "d"])
        else:
            most = min(most, rest // (p["d"] + p["dv"]))
        # The last one takes what is left, so that the product comes near W.
        p[name] = max(1, most) if name == names[-1] else dimension(draw, max(1, most))
    p["hkv"] = draw(st.sampled_from([h for h in (1, 2, 3, 4, 8, p["hq"]) if p["hq"] % h == 0]))
    p["scale"] = draw(st.sampled_from([None, None, 1.0, 0.125, 0.0, -0.5]))
    p["softcap"] = draw(st.sampled_from([0.0, 0.0, 0.0, 1.0, 30.0]))
    p["causal"], p["bottom_right"] = draw(st.booleans()), draw(st.booleans())
    p["window_left"], p["window_right"] = draw(st.sampled_from([-1, -1, -1, 0, 1, 16, 128])), -1
    p["keep"] = draw(st.sampled_from([None, None, 0.5, 0.125, 0.875]))
    p["bias"], p["lengths"] = draw(st.booleans()), draw(st.booleans())
    p["keep_axes"] = p["bias_axes"] = 12
    p["amplitude"] = draw(st.sampled_from([0.25, 1.0, 1.0, 4.0]))
    p["seed"] = draw(st.integers(0, 2**32 - 1))
    p["dtype"] = "f32"
    return p


def number(field):
    return float.fromhex(field) if isinstance(field, str) else float(field)


def of_attest(told):
    """The peer's form of a problem as attest writes it: extents, masks and their axes, window, scale and storage. Layouts, the
    distribution of values and which rows are judged are left out: tensors are contiguous normals here."""
    p = {name: told.get(name, 1) for name in EXTENTS}
    p["scale"] = number(told["scale"]) if "scale" in told else None
    p["softcap"] = number(told.get("softcap", 0))
    p["causal"], p["bottom_right"] = bool(told.get("causal")), told.get("align") == "bottom_right"
    p["window_left"], p["window_right"] = told.get("window_left", -1), told.get("window_right", -1)
    p["keep"] = OPEN.get(told["keep"], 0.5) if "keep" in told else None
    p["bias"], p["lengths"] = "bias" in told, "lengths" in told
    p["keep_axes"], p["bias_axes"] = told.get("keep_axes", 15), told.get("bias_axes", 15)
    p["amplitude"] = 1.0
    p["seed"] = told["seed"] & 0xFFFFFFFF
    p["dtype"] = told["dtype"]
    return p


def stored(x, dtype):
    """float32 rounded to the storage format: bfloat16, which NumPy has not, as 16 bits of its own."""
    if dtype == "f16":
        return x.astype(np.float16)
    if dtype == "bf16":
        bits = x.view(np.uint32)
        return ((bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) >> 16).astype(np.uint16)
    return x


def widened(x):
    """Returns the stored numbers as float32."""
    if x.dtype == np.float16:
        return x.astype(np.float32)
    if x.dtype == np.uint16:
        return (x.astype(np.uint32) << 16).view(np.float32)
    return x


def mask_shape(p, axes):
    """[B or 1, Hkv or 1, heads of a group or 1, Lq or 1, Lk or 1]: which axes a mask varies along, bit 0..3 batch, head, query, key."""
    b, h, q, k = (axes >> bit & 1 for bit in range(4))
    hkv = p["hkv"]
    return (p["b"] if b else 1, hkv if h else 1, p["hq"] // hkv if h else 1, p["lq"] if q else 1, p["lk"] if k else 1)


def tensors(p):
    """q [B,Hkv,G*Lq,D], k, v in storage (the heads of a group stacked, so that one batched product serves them), and additive
    bias or None, boolean keep or None, of five axes that fit [B,Hkv,G,Lq,Lk]."""
    rng = np.random.default_rng(p["seed"])
    b, hkv, lq, lk = p["b"], p["hkv"], p["lq"], p["lk"]
    group = p["hq"] // hkv

    def normal(*shape):
        return rng.standard_normal(shape, np.float32)

    q = stored(normal(b, hkv, group * lq, p["d"]) * np.float32(p["amplitude"]), p["dtype"])
    k = stored(normal(b, hkv, lk, p["d"]) * np.float32(p["amplitude"]), p["dtype"])
    v = stored(normal(b, hkv, lk, p["dv"]), p["dtype"])
    bias = stored(normal(*mask_shape(p, p["bias_axes"])), p["dtype"]) if p["bias"] else None
    keep = None
    if p["keep"] is not None:
        keep = rng.random(mask_shape(p, p["keep_axes"]), np.float32) < p["keep"]
    if p["causal"] or p["window_left"] >= 0 or p["window_right"] >= 0:
        gap = np.arange(lk) - np.arange(lq)[:, None] - (lk - lq if p["bottom_right"] else 0)
        inside = (gap <= 0) if p["causal"] else np.ones((lq, lk), bool)
        if p["window_left"] >= 0:
            inside &= gap >= -p["window_left"]
        if p["window_right"] >= 0:
            inside &= gap <= p["window_right"]
        keep = inside if keep is None else keep & inside
    if p["lengths"]:
        shorter = np.arange(lk) < rng.integers(1, lk + 1, (b, 1, 1, 1, 1))
        keep = shorter if keep is None else keep & shorter
    return q, k, v, bias, keep


def attention(p, q, k, v, bias, keep):
    scale = p["scale"] if p["scale"] is not None else 1 / np.sqrt(p["d"])
    s = (q @ k.swapaxes(-1, -2)) * q.dtype.type(scale)
    if p["softcap"]:
        s = q.dtype.type(p["softcap"]) * np.tanh(s / q.dtype.type(p["softcap"]))
    s = s.reshape(*s.shape[:2], -1, p["lq"], p["lk"])
    if bias is not None:
        s = s + bias
    if keep is not None:
        s = np.where(keep, s, -np.inf)
    top = s.max(-1, keepdims=True)
    w = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = w.sum(-1, keepdims=True)
    w = (w / np.where(total == 0, 1, total)).reshape(*w.shape[:2], -1, p["lk"])
    return w @ v


def agrees(p):
    """One problem: tensors, attention in float32 (rounded to storage) and in float64, one comparison."""
    *stored_in, keep = tensors(p)
    single = [t if t is None else widened(t) for t in stored_in]
    out = widened(stored(attention(p, *single, keep), p["dtype"]))
    double = [t if t is None else t.astype(np.float64) for t in single]
    expected = attention(p, *double, keep)
    tolerance = 1e-3 if p["dtype"] == "f32" else 2e-2
    return (np.abs(out - expected) <= tolerance + tolerance * np.abs(expected)).all()


def drawing(examples, work_bits, number, check):
    """Calls check(p) for `examples` problems; processor seconds."""
    @seed(number)
    @settings(max_examples=examples, phases=[Phase.generate], database=None, deadline=None,
              suppress_health_check=list(HealthCheck))
    @given(problems(work_bits))
    def each(p):
        check(p)

    start = time.process_time()
    with np.errstate(all="ignore"):
        each()
    return time.process_time() - start


def loop(examples, work_bits, number):
    """Runs `examples` problems; (seconds, problems, sum of W, failures)."""
    counts = [0, 0, 0]

    def check(p):
        counts[0] += 1
        counts[1] += p["b"] * p["hq"] * p["lq"] * p["lk"] * (p["d"] + p["dv"])
        counts[2] += not agrees(p)

    return drawing(examples, work_bits, number, check), *counts


def of_own_draws(seconds_asked, work_bits, number):
    loop(20, work_bits, number)  # imports and caches warm up outside the clock
    problems_run, work, failures, seconds = 0, 0, 0, 0.0
    while seconds < seconds_asked:
        number += 1
        took, count, w, failed = loop(500, work_bits, number)
        seconds, problems_run, work, failures = seconds + took, problems_run + count, work + w, failures + failed
    return {"problems": problems_run, "seconds": seconds, "mean_w": work / problems_run, "failures": failures}


def replayed(path):
    with open(path, encoding="utf-8") as file:
        drawn = [of_attest(told) for told in json.load(file)]
    seconds = []
    with np.errstate(all="ignore"):
        for p in drawn[:20]:
            agrees(p)
        for p in drawn:
            start = time.process_time()
            agrees(p)
            seconds.append(time.process_time() - start)
    return seconds


def draw_alone(draws, work_bits, number):
    drawn = []
    drawing(20, work_bits, number, drawn.append)
    drawn.clear()
    seconds = drawing(draws, work_bits, number, drawn.append)
    return {"seconds": seconds / len(drawn)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10, help="run at least this long")
    parser.add_argument("--work-bits", type=float, nargs=2, metavar=("LOW", "HIGH"),
                        help="W log-uniform in [2^LOW, 2^HIGH] instead of the default bands")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", metavar="FILE", help="attest's problems, a JSON array")
    parser.add_argument("--draws", type=int, metavar="N", help="draw N problems and do nothing with them")
    arguments = parser.parse_args()
    if arguments.replay:
        result = replayed(arguments.replay)
    elif arguments.draws:
        result = draw_alone(arguments.draws, arguments.work_bits, arguments.seed)
    else:
        result = of_own_draws(arguments.seconds, arguments.work_bits, arguments.seed)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
