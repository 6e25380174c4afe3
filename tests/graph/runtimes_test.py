#!/usr/bin/env python3
"""onnxruntime, at each of its optimisation levels, is not blamed on the graphs of models/; planted faults are.

Usage: runtimes_test.py GRAPH_JUDGE MODELS [PROBLEMS [SEED]]
Runs under ATTEST_PYTHON (or this interpreter) and is skipped (125) where onnxruntime is not installed there. Prints the largest
z and T of each model and level.
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
from onnx import TensorProto, numpy_helper

LEVELS = {"none": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}
NUMPY = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16, TensorProto.INT64: np.int64, TensorProto.BOOL: np.bool_}
LENGTHS = {"batch": [1, 2, 3], "heads": [1, 2, 4], "keys": [1, 2, 3, 7, 16, 17, 33, 64, 130, 300], "dim_v": [1, 4, 8, 33]}


def values(rng, shape, number):
    half, x = number == np.float16, rng.standard_normal(shape)
    regime = rng.choice(["normal", "normal", "uniform", "offset", "far", "wide", "large", "tiny", "integers", "constant", "sparse"])
    if regime == "uniform":
        x = rng.random(shape)
    elif regime == "offset":
        x = x + rng.choice([10, 100])
    elif regime == "far":
        x = x + (500 if half else 1e4)
    elif regime == "wide":
        x = x * np.exp2(rng.integers(-12, 8 if half else 12, shape))
    elif regime == "large":
        x = x * (30 if half else 100)
    elif regime == "tiny":
        x = x * (1e-3 if half else 1e-20)
    elif regime == "integers":
        x = rng.integers(-4, 5, shape)
    elif regime == "constant":
        x = np.full(shape, rng.standard_normal())
    elif regime == "sparse":
        x = x * (rng.random(shape) < 0.2)
    return np.asarray(x).astype(number)


def draw(model, rng):
    lengths, feeds = {}, {}
    for one in model.graph.input:
        of = one.type.tensor_type
        shape = [d.dim_value or lengths.setdefault(d.dim_param, int(rng.choice(LENGTHS.get(d.dim_param, range(1, 24)))))
                 for d in of.shape.dim]
        number = NUMPY[of.elem_type]
        kept = rng.random(shape) < rng.choice([0.1, 0.5, 0.9])
        kept[..., 0] |= rng.random() < 0.8
        if one.name == "mask" and number == np.int64:
            feeds["mask"] = (np.arange(shape[1]) < rng.integers(1, shape[1] + 1, (shape[0], 1))).astype(number)
        elif one.name == "mask":
            feeds["mask"] = kept if number == np.bool_ else np.where(kept, 0, rng.choice([np.finfo(number).min, -1e4])).astype(number)
        elif number == np.int64:
            feeds[one.name] = rng.integers(0, 24, shape)
        else:
            feeds[one.name] = values(rng, shape, number)
    return feeds


def session(model, level):
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def without_scale(model):
    """The same graph with a scale of 1; None where it has none."""
    changed = onnx.ModelProto.FromString(model.SerializeToString())
    for one in changed.graph.initializer:
        if one.name == "scale":
            one.CopyFrom(numpy_helper.from_array(np.ones_like(numpy_helper.to_array(one)), "scale"))
            return changed
    return None


def main(arguments):
    judge, folder = arguments[0], Path(arguments[1])
    problems, seed = int((arguments[2:] or [20])[0]), int((arguments[3:] or [1])[0])
    blamed, found, asked = [], 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for path in sorted(folder.glob("*.onnx")):
            model = onnx.load(path)
            subjects = {level: session(model, level) for level in LEVELS}
            faulty = without_scale(model)
            if faulty is not None:
                subjects["fault"] = session(faulty, "none")
            words, names = [], []
            for problem in range(problems):
                feeds = draw(model, np.random.default_rng([seed, problem]))
                given = f"{scratch}/{path.stem}-{problem}.npz"
                np.savez(given, **feeds)
                for name, subject in subjects.items():
                    results = f"{scratch}/{path.stem}-{problem}-{name}.npz"
                    np.savez(results, **dict(zip([o.name for o in subject.get_outputs()], subject.run(None, feeds))))
                    words += [given, results]
                    names.append((name, problem))
            done = subprocess.run([judge, str(path), "literal", str(seed), *words], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{path.name}: {done.stderr}")
            worst = {}
            for (name, problem), line in zip(names, done.stdout.splitlines(), strict=True):
                outcome, z, t = line.split()[:3]
                worst.setdefault(name, []).append((float(z), float(t) if t != "-" else 0, outcome))
                if name == "fault":
                    asked += 1
                    found += outcome == "failed"
                elif outcome == "failed":
                    blamed.append(f"{path.stem} {name} problem {problem}: {line}")
            for name, all_of_them in worst.items():
                outcomes = [o for _, _, o in all_of_them]
                print(f"{path.stem:20} {name:9} z {max(z for z, _, _ in all_of_them):9.3g}  T {max(t for _, t, _ in all_of_them):9.3g}"
                      f"  held {outcomes.count('held')}, vacuous {outcomes.count('vacuous')}, failed {outcomes.count('failed')}")
    print(f"onnxruntime {ort.__version__}: scale missing found in {found} of {asked}")
    for line in blamed:
        print(f"blamed: {line}")
    return 1 if blamed or not found > asked / 4 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
