#!/usr/bin/env python3
"""Operators that onnx does not define (com.microsoft, SimplifiedLayerNormalization): onnxruntime, which defines them, is not blamed; planted faults are.

Usage: contrib_test.py GRAPH_EXAM GRAPH_JUDGE [PROBLEMS [SEED]]
Every such operator that attest evaluates must be asked. A fault is onnxruntime's result of another node. Runs under ATTEST_PYTHON (or this interpreter) and is
skipped (125) where onnxruntime is not installed there. Prints the largest z and T of each case.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from need_package import need

need("onnxruntime", "./run test installs it")
import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from runtimes_test import values

MICROSOFT = "com.microsoft"


class Asked:
    """One node with inputs and constants; `changed` is what a fault computes in its place: another operator, attributes, constants."""

    def __init__(self, op, inputs, outputs=("y",), constants=(), domain=MICROSOFT, changed=(), **attributes):
        self.op, self.inputs, self.outputs, self.constants, self.domain = op, inputs, outputs, set(constants), domain
        self.changed, self.attributes = changed, attributes

    def model(self, changed=None):
        inputs, attributes, op = dict(self.inputs), dict(self.attributes), self.op
        for key, value in (changed or {}).items():
            if key == "op":
                op = value
                continue
            (inputs if key in inputs else attributes)[key] = value
        info = lambda name, x: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        node = helper.make_node(op, [name if x is not None else "" for name, x in inputs.items()], self.outputs,
                                domain=self.domain, **{k: v for k, v in attributes.items() if v is not None})
        given = {name: x for name, x in inputs.items() if x is not None}
        fixed = set(given) & (self.constants | set(changed or {}))
        graph = helper.make_graph([node], "g", [info(name, x) for name, x in given.items() if name not in fixed],
                                  [onnx.ValueInfoProto(name=o) for o in self.outputs if o],
                                  [numpy_helper.from_array(x, name) for name, x in given.items() if name in fixed])
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9), {n: x for n, x in given.items() if n not in fixed}


def floats(rng, *shape):
    return values(rng, shape, np.float32)


def plain(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def lengths(rng):
    return int(rng.integers(1, 4)), int(rng.choice([1, 2, 3, 5, 8, 17, 33]))


def skip_norm(simplified):
    def case(rng):
        batch, length = lengths(rng)
        hidden = int(rng.choice([4, 8, 33, 64]))
        bias = plain(rng, hidden) if rng.random() < 0.5 else None
        inputs = {"x": floats(rng, batch, length, hidden), "skip": floats(rng, batch, length, hidden), "gamma": plain(rng, hidden)}
        if not simplified:
            inputs["beta"] = plain(rng, hidden)
        return Asked(f"Skip{'Simplified' * simplified}LayerNormalization", {**inputs, "bias": bias},
                     outputs=("y", "", "", "sum"), epsilon=1e-5, changed=[{"gamma": inputs["gamma"][::-1].copy()}])
    return case


def simplified_norm(rng):
    batch, length = lengths(rng)
    hidden = int(rng.choice([4, 8, 33, 64]))
    gamma = plain(rng, hidden)
    return Asked("SimplifiedLayerNormalization", {"x": floats(rng, batch, length, hidden), "gamma": gamma}, domain="",
                 epsilon=1e-5, axis=-1, changed=[{"gamma": gamma[::-1].copy()}])


def gelu(name, **other):
    def case(rng):
        batch, length = lengths(rng)
        inputs = {"x": floats(rng, batch, length, 16)}
        if name == "BiasGelu" or (name == "FastGelu" and rng.random() < 0.5):
            inputs["bias"] = plain(rng, 16)
        changed = [{"bias": inputs["bias"][::-1].copy()}] if "bias" in inputs else [{k: v} for k, v in other.items()]
        return Asked(name, inputs, changed=changed)
    return case


def product(rng):
    m, k, n, batch = (int(one) for one in rng.integers(1, 12, 4))
    turned_a, turned_b = (int(one) for one in rng.integers(0, 2, 2))
    a, b = floats(rng, batch, 3, *([k, m] if turned_a else [m, k])), plain(rng, batch, 3, *([n, k] if turned_b else [k, n]))
    if rng.random() < 0.3 and not turned_a:
        a = a.transpose(2, 0, 1, 3).copy()
        return Asked("FusedMatMul", {"a": a, "b": b}, alpha=0.25, transB=turned_b, transBatchA=1, changed=[{"alpha": 0.26}])
    return Asked("FusedMatMul", {"a": a, "b": b}, alpha=0.25, transA=turned_a, transB=turned_b, changed=[{"alpha": 0.26}])


def embedding(rng):
    batch, length = lengths(rng)
    hidden, ids = 16, lambda n: rng.integers(0, n, (batch, length)).astype(np.int32)
    segments = rng.random() < 0.7
    mask = (np.arange(length) < rng.integers(1, length + 1, (batch, 1))).astype(np.int32) if rng.random() < 0.5 else None
    inputs = {"ids": ids(20), "segments": ids(2) if segments else None, "words": plain(rng, 20, hidden),
              "positions": plain(rng, 40, hidden), "kinds": plain(rng, 2, hidden) if segments else None,
              "gamma": plain(rng, hidden), "beta": plain(rng, hidden), "mask": mask}
    return Asked("EmbedLayerNormalization", inputs, ("y", "ends", "sum"), ("words", "positions", "kinds", "gamma", "beta"),
                 epsilon=1e-5, changed=[{"positions": inputs["positions"][::-1].copy()}])


def padding(rng, batch, queries, keys):
    """A mask of integers in one of its forms, or none; and one that is a token shorter for a fault."""
    ends = rng.integers(1, keys + 1, batch)
    form = rng.choice(["none", "ends", "keys", "pairs"])
    if form == "none":
        return None
    if form == "ends":
        return ends.astype(np.int32)
    kept = (np.arange(keys) < ends[:, None]).astype(np.int32)
    return kept if form == "keys" else np.repeat(kept[:, None], queries, 1)


def attention(rng):
    batch, length = lengths(rng)
    heads, width = int(rng.choice([1, 2, 4])), int(rng.choice([4, 8, 16]))
    hidden, past = heads * width, int(rng.choice([0, 0, 3]))
    mask = padding(rng, batch, length, length + past) if past == 0 else None
    inputs = {"x": floats(rng, batch, length, 12), "weights": plain(rng, 12, 3 * hidden) / 4, "bias": plain(rng, 3 * hidden), "mask": mask,
              "past": plain(rng, 2, batch, heads, past, width) if past else None,
              "added": plain(rng, 1, heads, length, length) if not past and rng.random() < 0.3 else None}
    return Asked("Attention", inputs, ("y", "present"), ("weights", "bias"), num_heads=heads,
                 unidirectional=int(rng.random() < 0.3), changed=[{"weights": inputs["weights"][:, ::-1].copy()}, {"scale": 0.2}])


def heads_attention(rng):
    batch, length = lengths(rng)
    heads, width, wide = int(rng.choice([1, 2, 4])), int(rng.choice([4, 8, 16])), int(rng.choice([4, 8]))
    form = rng.choice(["cross", "self", "past"])
    keys = length + int(rng.choice([0, 1, 5])) if form == "cross" else length
    past = int(rng.choice([1, 4])) if form == "past" else 0
    wide = width if form == "past" else wide
    hidden, values_hidden = heads * width, heads * wide
    bias = plain(rng, 2 * hidden + values_hidden) if rng.random() < 0.5 and form != "past" else None
    inputs = {"q": floats(rng, batch, length, hidden), "k": floats(rng, batch, keys, hidden), "v": floats(rng, batch, keys, values_hidden)}
    inputs |= {"bias": bias, "mask": padding(rng, batch, length, keys) if not past else None,
               "added": plain(rng, 1, heads, length, keys + past) if rng.random() < 0.3 else None}
    if past:
        inputs |= {"past_k": plain(rng, batch, heads, past, width), "past_v": plain(rng, batch, heads, past, width)}
    return Asked("MultiHeadAttention", inputs, ("y", "present_k", "present_v") if past else ("y",), num_heads=heads,
                 unidirectional=int(form in ("self", "past") and rng.random() < 0.5), changed=[{"scale": 0.2}])


def grouped_attention(rng):
    batch, length = lengths(rng)
    group, of_keys, width = int(rng.choice([1, 2, 3])), int(rng.choice([1, 2])), int(rng.choice([16, 32]))
    heads, past = group * of_keys, int(rng.choice([0, 0, 5, 9]))
    if past:  # one token at a time, or one sample
        batch, length = (batch, 1) if rng.random() < 0.5 else (1, length)
    total = past + length
    ends = rng.integers(1, total + 1, batch) if not past else rng.integers(length, total + 1, batch)
    ends[0] = total
    of = lambda n: floats(rng, batch, length, n * width)
    packed = rng.random() < 0.3
    inputs = {"q": of(heads + 2 * of_keys) if packed else of(heads), "k": None if packed else of(of_keys), "v": None if packed else of(of_keys)}
    for name in ("past_k", "past_v"):
        inputs[name] = plain(rng, batch, of_keys, past, width) if past else None
    inputs |= {"ends": (ends - 1).astype(np.int32), "total": np.array(total, np.int32)}
    turns = int(rng.random() < 0.5)
    if turns:
        angles = rng.random((64, width // 2)) * 6
        inputs |= {"cosines": np.cos(angles).astype(np.float32), "sines": np.sin(angles).astype(np.float32)}
    return Asked("GroupQueryAttention", inputs, ("y", "present_k", "present_v"), ("total",), num_heads=heads, kv_num_heads=of_keys,
                 do_rotary=turns, rotary_interleaved=int(rng.random() < 0.5), changed=[{"scale": 0.2}])


def rotary(rng):
    batch, length = lengths(rng)
    heads, width = int(rng.choice([1, 2, 3])), int(rng.choice([4, 8, 16]))
    turned = width if rng.random() < 0.6 else width // 2
    angles = rng.random((64, turned // 2)) * 6
    inputs = {"x": floats(rng, batch, length, heads * width), "positions": rng.integers(0, 60, (batch, length)),
              "cosines": np.cos(angles).astype(np.float32), "sines": np.sin(angles).astype(np.float32)}
    if rng.random() < 0.3:
        inputs["positions"] = np.array([3])
    if rng.random() < 0.3:
        inputs["x"] = floats(rng, batch, heads, length, width)
    other = {"num_heads": heads, "rotary_embedding_dim": turned} if turned < width else {}
    return Asked("RotaryEmbedding", inputs, constants=("cosines", "sines"), interleaved=int(rng.random() < 0.5), **other,
                 changed=[{"sines": -inputs["sines"]}])


def packed_bits(rng):
    bits, block = int(rng.choice([4, 4, 8, 2])), int(rng.choice([16, 32, 64]))
    k, n, rows = int(rng.integers(1, 130)), int(rng.integers(1, 40)), int(rng.integers(1, 9))
    blocks, each = -(-k // block), 8 // bits
    scales = (rng.random((n, blocks)) + 0.1).astype(np.float32) / 8
    zero = rng.integers(0, 256, (n, -(-blocks // each))).astype(np.uint8) if rng.random() < 0.5 else None
    inputs = {"a": floats(rng, rows, k), "b": rng.integers(0, 256, (n, blocks, block // each)).astype(np.uint8), "scales": scales, "zero": zero}
    return Asked("MatMulNBits", inputs, constants=("b", "scales", "zero"), K=k, N=n, bits=bits, block_size=block,
                 changed=[{"scales": scales * np.float32(1.01)}])


def eight_bits_lstm(rng):
    length, batch, inputs, width, directions = (int(one) for one in (rng.choice([1, 2, 5, 17]), rng.integers(1, 5), rng.integers(1, 20),
                                                                     rng.choice([1, 4, 16]), rng.integers(1, 3)))
    kind = rng.choice([np.int8, np.uint8])
    # Signed ones have 7 bits, as onnxruntime's document of quantization asks where a processor has no VNNI: the sum of two products
    # with 8 bits ends at 32767 there.
    least, past = (-64, 64) if kind == np.int8 else (0, 256)
    weights = lambda rows: rng.integers(least, past, (directions, rows, 4 * width)).astype(kind)
    scales = (directions, 4 * width) if rng.random() < 0.5 else (directions,)
    scale = lambda: (rng.random(scales) + 0.5).astype(np.float32) / 128
    zero = lambda: np.zeros(scales, kind) if kind == np.int8 else np.full(scales, 128, kind)
    starts = rng.random() < 0.5
    given = {"x": floats(rng, length, batch, inputs), "w": weights(inputs), "r": weights(width),
             "b": plain(rng, directions, 8 * width) if rng.random() < 0.5 else None, "ends": None,
             "h": plain(rng, directions, batch, width) if starts else None, "c": plain(rng, directions, batch, width) if starts else None,
             "p": None, "w_scale": scale(), "w_zero": zero(), "r_scale": scale(), "r_zero": zero()}
    fixed = ("w", "r", "b", "w_scale", "w_zero", "r_scale", "r_zero")
    return Asked("DynamicQuantizeLSTM", given, ("y", "last", "cell"), fixed, hidden_size=width,
                 direction="bidirectional" if directions == 2 else "forward", changed=[{"w": given["w"][:, :, ::-1].copy()}])


CASES = [skip_norm(False), skip_norm(True), simplified_norm, gelu("BiasGelu"), gelu("FastGelu"), gelu("Gelu", op="QuickGelu"), gelu("QuickGelu", alpha=1.6),
         product, embedding, attention, heads_attention, grouped_attention, rotary, packed_bits, eight_bits_lstm]


def results(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def main(arguments):
    exam, judge = arguments[:2]
    problems, seed = int((arguments[2:] or [30])[0]), int((arguments[3:] or [1])[0])
    names = subprocess.run([exam], capture_output=True, text=True, check=True).stdout.strip().split(", ")
    missing = {name for name in names if "." in name or not onnx.defs.has(name)}
    bad = []
    for number, case in enumerate(CASES):
        counts, largest = {}, {"z": 0, "T": 0}
        with tempfile.TemporaryDirectory() as scratch:
            for problem in range(problems):
                asked = case(np.random.default_rng([seed, number, problem]))
                name = f"{asked.domain}.{asked.op}" if asked.domain else asked.op
                missing.discard(name)
                model, feeds = asked.model()
                onnx.save(model, f"{scratch}/m.onnx")
                np.savez(f"{scratch}/in.npz", **feeds)
                runs = [("", results(model, feeds))]
                for change in asked.changed:
                    other, fewer = asked.model(change)
                    runs.append((" ".join(change), results(other, fewer)))
                words = []
                for i, (_, outputs) in enumerate(runs):
                    np.savez(f"{scratch}/{i}.npz", **outputs)
                    words += [f"{scratch}/in.npz", f"{scratch}/{i}.npz"]
                done = subprocess.run([judge, f"{scratch}/m.onnx", "literal", str(seed), *words], capture_output=True, text=True)
                if done.returncode:
                    bad.append(f"{name} problem {problem}: {done.stderr}")
                    continue
                for (change, outputs), line in zip(runs, done.stdout.splitlines(), strict=True):
                    outcome, z, t = line.split()[:3]
                    if change and all(np.array_equal(outputs[o], runs[0][1][o], equal_nan=True) for o in outputs):
                        continue
                    counts.setdefault(change, []).append(outcome)
                    if not change:
                        largest = {"z": max(largest["z"], float(z)), "T": max(largest["T"], 0 if t == "-" else float(t))}
                        if outcome == "failed":
                            bad.append(f"{name} problem {problem}: {line}; {asked.attributes}, {[(n, x.shape) for n, x in asked.inputs.items() if x is not None]}")
        told = ", ".join(f"{change or 'onnxruntime'}: " + " ".join(f"{o} {of.count(o)}" for o in sorted(set(of))) for change, of in counts.items())
        print(f"{name:45} z {largest['z']:8.3g} T {largest['T']:8.3g}  {told}")
        for change, of in counts.items():
            if of.count("failed") < len(of) * 0.6 if change else of.count("held") < len(of) / 2:
                bad.append(f"{name}: {change or 'too little held'}: {of.count('failed')} of {len(of)} failed")
    bad += [f"{name}: not asked" for name in sorted(missing)]
    for line in bad:
        print(f"blamed: {line}")
    print(f"onnxruntime {ort.__version__}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
