#!/usr/bin/env python3
"""Every operator that attest evaluates, on onnx's own backend tests of it (onnx.backend.test.case.node).

Usage: exam.py GRAPH_EXAM [CASE]      CASE: a part of a name, for those cases alone
A case counts where attest evaluates all of its operators. 1 where one of them is wrong, refused for a reason that is not one of
EXCLUDED, or cannot tell a right output from a wrong one, and where an operator of onnx has no case that holds (of others: contrib_test.py). Skipped (125) without the package onnx.
"""
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from need_package import need

need("onnx", "./run test installs it")
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

# The reasons for which docs/graphs.md section 1 leaves a case out, by a pattern of the line that tells of it.
EXCLUDED = {
    "which attest does not evaluate": "a type of elements that is not evaluated",
    r"is no tensor \(a sequence": "sequences and optionals",
    "training is not evaluated": "training",
    "its operators are those of version": "versions before 7",
    r"\(Loop\): what it reads, or the shape of its result, depends on computed floats": "as often as computed floats say",
    "averagepool_2d_ceil_last_window_starts_on_pad: wrong": "results that the case has to four digits",
    **{f"resize_downsample_scales_{form}: blind": "Resize to a length that is no whole number, of whose scale document and reference differ"
       for form in ("linear", "cubic", "cubic_A_n0p5_exclude_outside", "linear_antialias", "cubic_antialias")},
    r"test_attention.*: -?nan \+- -?nan in place of 0": "Attention of rows without keys, of which runtimes differ",
}


def operators(graph):
    for node in graph.node:
        yield f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from operators(inner)


def stored(case, folder):
    """Writes a case and what is known of it; None where that is no tensor."""
    inputs, outputs = case.data_sets[0]
    names = [one.name for one in [*case.model.graph.input, *case.model.graph.output]]
    tensors = []
    for name, value, info in zip(names, [*inputs, *outputs], [*case.model.graph.input, *case.model.graph.output], strict=True):
        if isinstance(value, onnx.TensorProto):
            tensors.append(onnx.TensorProto.FromString(value.SerializeToString()))
            tensors[-1].name = name
        elif info.type.HasField("tensor_type"):
            tensors.append(numpy_helper.from_array(np.asarray(value), name))
    path = folder / f"{case.name}.onnx"
    path.write_bytes(case.model.SerializeToString())
    empty = helper.make_graph([helper.make_node("Identity", [names[0]], ["known"])], "known", [], [onnx.ValueInfoProto(name="known")], tensors)
    path.with_suffix(".data.onnx").write_bytes(helper.make_model(empty, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
    return path


def main(arguments):
    exam, part = arguments[0], (arguments[1:] or [""])[0]
    known = set(subprocess.run([exam], capture_output=True, text=True, check=True).stdout.strip().split(", "))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = [one for one in collect_testcases(None) if part in one.name and set(operators(one.model.graph)) <= known]
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(stored(one, Path(folder))) for one in cases]
        done = subprocess.run([exam, *paths], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{exam} ended with {done.returncode}: {done.stderr}")
    held, bad, excluded, shown = 0, [], {}, set()
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        outcome, _, why = line.partition("\t")
        told = f"{case.name}: {outcome}: {why.replace(folder, '')}"
        reason = next((reason for words, reason in EXCLUDED.items() if outcome != "held" and re.search(words, told)), None)
        if outcome == "held":
            held += 1
            shown |= set(operators(case.model.graph))
        if reason:
            excluded.setdefault(reason, []).append(case.name)
        elif outcome != "held":
            bad.append(told)
    for reason, names in excluded.items():
        print(f"not asked, {reason}: {len(names)}: {', '.join(names)}")
    bad += [] if part else [f"{name}: no case holds" for name in sorted(known - shown) if onnx.defs.has(name)]
    for line in bad:
        print(line)
    print(f"onnx {onnx.__version__}: {held} of {len(cases) - sum(map(len, excluded.values()))} cases of {len(known)} operators held")
    return 1 if bad or not cases else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
