"""The explicit graph of a program that torch exported: attest_worker.py, asked `exported MODEL.pt2 OUT.onnx`, writes it, and answers with a line of JSON:
{"constrain": {axis: "lo..hi"}}, the lengths that the program was exported for, or {"error": one sentence}.

The graph says which program it is of (`attest.program`, a digest), so that the runtime `torch` knows what it is asked; it is the same at each export.
"""
import hashlib
import json
import os
import sys
from pathlib import Path

KEY = "attest.program"


def digest_of(program):
    return hashlib.sha256(Path(program).read_bytes()).hexdigest()


def exported(program, out):
    import torch
    loaded = torch.export.load(program)
    graph = torch.onnx.export(loaded, dynamo=True, optimize=False).model_proto
    for one in (*graph.graph.node, *graph.graph.input, *graph.graph.output, *graph.graph.value_info):  # where in whose sources it was made
        del one.metadata_props[:]
        one.doc_string = ""
    del graph.metadata_props[:]
    graph.metadata_props.add(key=KEY, value=digest_of(program))
    Path(out).write_bytes(graph.SerializeToString(deterministic=True))
    return {"constrain": lengths_of(loaded, graph)}


def lengths_of(program, graph):
    """The lengths by the names of the graph's open axes, whose inputs are in the order of the program's."""
    given = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    lengths = {}
    for stated, name in zip(graph.graph.input, program.graph_signature.user_inputs):
        for axis, length in zip(stated.type.tensor_type.shape.dim, getattr(given.get(name), "shape", ())):
            symbol = getattr(getattr(length, "node", None), "expr", None)
            found = program.range_constraints.get(symbol)
            if not axis.dim_param or found is None:
                continue
            least = max(int(found.lower), 1)
            most = str(found.upper)
            lengths[axis.dim_param] = f"{least}..{most if most.isdigit() and int(most) < 65536 else 65536}"
    return lengths


def main():
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the output of torch goes to stderr
    program, out = sys.argv[2:4]
    try:
        said = exported(program, out)
    except ImportError as error:
        said = {"error": f"{program}: {sys.executable} cannot export it: {error}; install torch and onnxscript there, or name another interpreter with --python"}
    except Exception as error:
        import traceback
        traceback.print_exc()
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        said = {"error": f"{program}: torch cannot read it, or has no ONNX graph of it: {type(error).__name__}: {lines[0][:300]}"}
    print(json.dumps(said), file=answer, flush=True)
