"""What S0.md judges: a block in FP16, as an engine would compute it, with all that Polygraphy saves of a run, its stages marked as
outputs. Writes inputs.json and, of three engines, outputs-*.json beside this file; needs NumPy.

  right.json     the softmax in FP32
  softmax.json   the softmax in FP16
  transfer.json  the right one, to whom tokens came that lay before samples in memory and were taken for samples before tokens
"""
import base64
import io
import json
from pathlib import Path

import numpy as np

BATCH, TOKENS, E, HEADS = 2, 6, 16, 2
D = E // HEADS
f16, f32 = np.float16, np.float32


def half(values):
    return np.asarray(values, f32).astype(f16)


def product(x, w, b):
    """Sums in FP32, rounded once, the bias added before."""
    return half(x.astype(f32) @ w.astype(f32).T + b.astype(f32))


def softmax(scores, kind):
    scores = scores.astype(kind)
    powers = np.exp((scores - scores.max(-1, keepdims=True)).astype(kind)).astype(kind)
    total = np.zeros(scores.shape[:-1] + (1,), kind)
    for j in range(scores.shape[-1]):
        total = (total + powers[..., j:j + 1]).astype(kind)
    return (powers / total).astype(kind)


def block(tokens, weights, kind):
    """{name: array} of what the engine gives: q, k, v, the concatenated heads, and out."""
    qkv = product(tokens, weights["in_proj_weight"], weights["in_proj_bias"])
    q, k, v = np.split(qkv, 3, -1)
    apart = lambda t: t.reshape(BATCH, TOKENS, HEADS, D).transpose(0, 2, 1, 3).astype(f32)
    scores = apart(q) @ apart(k).swapaxes(-1, -2) / np.sqrt(f32(D))
    heads = half(softmax(scores, kind).astype(f16).astype(f32) @ apart(v)).transpose(0, 2, 1, 3).reshape(BATCH, TOKENS, E)
    return {"q": q, "k": k, "v": v, "heads": heads, "out": product(heads, weights["out_proj.weight"], weights["out_proj.bias"])}


def saved(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0))
    return {"array": base64.b64encode(file.getvalue()).decode(), "polygraphy_class": "ndarray"}


def write(name, value):
    Path(__file__).with_name(name).write_text(json.dumps(value, indent=1) + "\n")


def write_outputs(name, outputs):
    """As `polygraphy run --save-outputs` does."""
    result = {"outputs": {n: {"values": saved(a), "polygraphy_class": "LazyArray"} for n, a in outputs.items()},
              "runtime": 0.001, "runner_name": "trt", "polygraphy_class": "IterationResult"}
    write(name, {"lst": [["trt", [result]]], "polygraphy_class": "RunResults"})


def main():
    numbers = np.random.RandomState(2674)  # its stream is the same in every version of NumPy
    draw = lambda *shape: half(numbers.uniform(-1, 1, shape))
    weights = {"in_proj_weight": draw(3 * E, E), "in_proj_bias": draw(3 * E), "out_proj.weight": draw(E, E), "out_proj.bias": draw(E)}
    tokens = draw(BATCH, TOKENS, E)
    moved = np.ascontiguousarray(tokens.transpose(1, 0, 2)).reshape(tokens.shape)
    write("inputs.json", [{n: saved(a) for n, a in {"tokens": tokens, **weights}.items()}])
    write_outputs("right.json", block(tokens, weights, f32))
    write_outputs("softmax.json", block(tokens, weights, f16))
    write_outputs("transfer.json", block(moved, weights, f32))


if __name__ == "__main__":
    main()
