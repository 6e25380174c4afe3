#!/usr/bin/env python3
"""The loop attest's speed is measured against: Hypothesis draws, NumPy computes and compares.

A problem is drawn from attest's ranges and work bands (multiply-adds W first, then edge-biased
dimensions within it); attention is computed in float32 and in float64 by batched matmul, and the
two are compared once, with a tolerance. It is a friendly peer: the generate phase alone, no
database, no deadline, no health check, tensors from NumPy's generator rather than element by element.

Prints one JSON object: {"problems", "seconds" (of processor time), "mean_w", "failures"}.
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
    p["window_left"] = draw(st.sampled_from([-1, -1, -1, 0, 1, 16, 128]))
    p["keep"] = draw(st.sampled_from([None, None, 0.5, 0.125, 0.875]))
    p["bias"], p["lengths"] = draw(st.booleans()), draw(st.booleans())
    p["amplitude"] = draw(st.sampled_from([0.25, 1.0, 1.0, 4.0]))
    p["seed"] = draw(st.integers(0, 2**32 - 1))
    return p


def tensors(p):
    """q [B,Hkv,G*Lq,D], k, v (the heads of a group stacked, so that one batched product serves
    them), additive bias or None, boolean keep or None."""
    rng = np.random.default_rng(p["seed"])
    b, hkv, lq, lk = p["b"], p["hkv"], p["lq"], p["lk"]
    group = p["hq"] // hkv
    q = rng.standard_normal((b, hkv, group * lq, p["d"]), np.float32) * np.float32(p["amplitude"])
    k = rng.standard_normal((b, hkv, lk, p["d"]), np.float32) * np.float32(p["amplitude"])
    v = rng.standard_normal((b, hkv, lk, p["dv"]), np.float32)
    bias = rng.standard_normal((lq, lk), np.float32) if p["bias"] else None
    keep = None
    if p["keep"] is not None:
        keep = rng.random((lq, lk), np.float32) < p["keep"]
    if p["causal"] or p["window_left"] >= 0:
        gap = np.arange(lk) - np.arange(lq)[:, None] - (lk - lq if p["bottom_right"] else 0)
        inside = (gap <= 0) if p["causal"] else np.ones((lq, lk), bool)
        if p["window_left"] >= 0:
            inside &= gap >= -p["window_left"]
        keep = inside if keep is None else keep & inside
    if p["lengths"]:
        shorter = np.arange(lk) < rng.integers(1, lk + 1, (b, 1, 1, 1))
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
        s = np.where(keep if keep.ndim == 2 else keep[:, :, None], s, -np.inf)
    top = s.max(-1, keepdims=True)
    w = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = w.sum(-1, keepdims=True)
    w = (w / np.where(total == 0, 1, total)).reshape(*w.shape[:2], -1, p["lk"])
    return w @ v


def loop(examples, work_bits, number):
    """Runs `examples` problems; (seconds, problems, sum of W, failures)."""
    counts = [0, 0, 0]

    @seed(number)
    @settings(max_examples=examples, phases=[Phase.generate], database=None, deadline=None,
              suppress_health_check=list(HealthCheck))
    @given(problems(work_bits))
    def check(p):
        q, k, v, bias, keep = tensors(p)
        out = attention(p, q, k, v, bias, keep)
        double = [t if t is None else t.astype(np.float64) for t in (q, k, v, bias)]
        expected = attention(p, *double, keep)
        counts[0] += 1
        counts[1] += p["b"] * p["hq"] * p["lq"] * p["lk"] * (p["d"] + p["dv"])
        counts[2] += not (np.abs(out - expected) <= 1e-3 + 1e-3 * np.abs(expected)).all()

    start = time.process_time()
    with np.errstate(all="ignore"):
        check()
    return time.process_time() - start, *counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10, help="run at least this long")
    parser.add_argument("--work-bits", type=float, nargs=2, metavar=("LOW", "HIGH"),
                        help="W log-uniform in [2^LOW, 2^HIGH] instead of the default bands")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    loop(20, arguments.work_bits, arguments.seed)  # imports and caches warm up outside the clock
    problems_run, work, failures, seconds, number = 0, 0, 0, 0.0, arguments.seed
    while seconds < arguments.seconds:
        number += 1
        took, count, w, failed = loop(500, arguments.work_bits, number)
        seconds, problems_run, work, failures = seconds + took, problems_run + count, work + w, failures + failed
    print(json.dumps({"problems": problems_run, "seconds": seconds, "mean_w": work / problems_run,
                      "failures": failures}))


if __name__ == "__main__":
    main()
