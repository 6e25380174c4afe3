#!/usr/bin/env python3
"""Every operator that attest evaluates, on onnx's own backend tests of it (onnx.backend.test.case.node, and .model of small graphs).

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
from onnx.backend.test.case import model as of_models
from onnx.backend.test.case import node as of_nodes

# The reasons for which docs/graphs.md section 1 leaves a case out, by a pattern of the line that tells of it.
EXCLUDED = {
    "which attest does not evaluate": "strings and complex numbers, which are not evaluated",
    r"is no tensor \(a sequence": "optionals",
    "Scan is evaluated from version 9 on": "Scan of version 8",
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


def of_tensors(model, inputs, outputs):
    """The case with sequences that are put together of inputs, and taken apart into outputs."""
    graph, kept = model.graph, ([], [])

    def flattened(infos, values, kept, put):
        given = []
        for info, value in zip(list(infos), values, strict=True):
            if not info.type.HasField("sequence_type"):
                kept.append(info)
                given.append(value)
                continue
            of = info.type.sequence_type.elem_type.tensor_type.elem_type
            parts = [np.asarray(one) for one in value]
            kept += [helper.make_tensor_value_info(f"{info.name}.{k}", of, one.shape) for k, one in enumerate(parts)]
            given += parts
            put(info.name, len(parts), of, kept, given)
        return given

    def construct(name, count, of, kept, given):
        made = helper.make_node("SequenceConstruct", [f"{name}.{k}" for k in range(count)], [name])
        graph.node.insert(0, made if count else helper.make_node("SequenceEmpty", [], [name], dtype=of))

    def take_apart(name, count, of, kept, given):
        graph.node.append(helper.make_node("SequenceLength", [name], [f"{name}.length"]))
        kept.append(helper.make_tensor_value_info(f"{name}.length", onnx.TensorProto.INT64, []))
        given.append(np.array(count))
        for k in range(count):
            graph.node.append(helper.make_node("Constant", [], [f"{name}.at.{k}"], value=numpy_helper.from_array(np.array(k))))
            graph.node.append(helper.make_node("SequenceAt", [name, f"{name}.at.{k}"], [f"{name}.{k}"]))

    fixed = {one.name for one in graph.initializer}
    open_inputs = [one for one in graph.input if one.name not in fixed]
    inputs, outputs = flattened(open_inputs, inputs, kept[0], construct), flattened(graph.output, outputs, kept[1], take_apart)
    for field, of in zip((graph.input, graph.output), kept):
        del field[:]
        field.extend(of)
    return inputs, outputs


def stored(case, folder):
    """Writes a case and what is known of it; None where that is no tensor."""
    inputs, outputs = of_tensors(case.model, *case.data_sets[0])
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
        all_cases = [*of_nodes.collect_testcases(None), *(one for one in of_models.collect_testcases() if one.model is not None)]
        cases = [one for one in all_cases if part in one.name and set(operators(one.model.graph)) <= known]
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
