"""A program that torch exported, of which the graph that is asked is the explicit form (exported_program.py): eager, and by torch.compile, for any lengths.

Torch has no program of what is asked besides (a graph cut short or by itself, constants as inputs, stated lengths): those are not asked, and a failure has
no place."""
import os

import onnx
import torch

import attest
from ..exported_program import KEY, digest_of

PROGRAM = os.environ.get("ATTEST_PROGRAM", "")  # set for the models of attest's command line that end with .pt2
torch._dynamo.config.recompile_limit = 64  # lengths of 0 and 1 are compiled for by themselves


@attest.runtime(name="torch", version=torch.__version__.partition("+")[0], builds=("eager", "compiled"))
def load(model, *, build, threads):
    graph = onnx.load_from_string(model)
    if not PROGRAM or digest_of(PROGRAM) not in [said.value for said in graph.metadata_props if said.key == KEY]:
        raise attest.Unsupported("torch: a graph that there is no exported program of")
    torch.set_num_threads(threads or os.cpu_count())
    program = torch.export.load(PROGRAM)
    module = program.module()
    if build == "compiled":
        torch.compiler.reset()
        module = torch.compile(module, dynamic=True)
        with torch.no_grad():
            module(*program.example_inputs[0], **program.example_inputs[1])  # compiles, which is no part of a call
    outputs = [one.name for one in graph.graph.output]
    halves = {one.name for one in graph.graph.input if one.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16}

    def tensor(name, feed):
        return torch.from_numpy(feed).view(torch.bfloat16) if name in halves else torch.from_numpy(feed)

    def array(result):
        return result.view(torch.uint16).numpy() if result.dtype == torch.bfloat16 else result.numpy()

    def run(feeds, names):
        with torch.no_grad():  # inputs of the file lie in the order of the program's
            results = module(*(tensor(name, feed) for name, feed in feeds.items()))
        results = dict(zip(outputs, results if isinstance(results, (tuple, list)) else [results]))
        return [array(results[name]) for name in names]
    return run
