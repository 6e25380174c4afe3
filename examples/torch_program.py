"""torch.compile of an exported program, asked as a model: `attest fuzz model.onnx --on torch_program.py --timeout 2m` beside model.pt2.

model.pt2 is the program (torch.export.save), and model.onnx the explicit graph that its results are held against, made of it by the package onnxscript:

    program = torch.export.export(module.eval(), example, dynamic_shapes=...)
    torch.export.save(program, "model.pt2")
    torch.onnx.export(program, dynamo=True, optimize=False).save("model.onnx")

What is asked of other files (a graph cut short to localise, constants as inputs, stated lengths) torch has no program of: those are skipped, and a failure has no
place. Lengths that the program was exported for are said by --constrain 'size.batch=1..64'. TORCH_PROGRAM names the program where it lies elsewhere.
"""
import os
from pathlib import Path

import onnx
import torch

import attest

PROGRAM = Path(os.environ.get("TORCH_PROGRAM", "model.pt2"))
torch._dynamo.config.recompile_limit = 64  # lengths of 0 and 1 are compiled for by themselves


@attest.runtime(version=torch.__version__.partition("+")[0], builds=("eager", "compiled"))
def torch_program(model, *, build, threads):
    if model != PROGRAM.with_suffix(".onnx").read_bytes():
        raise attest.Unsupported("a graph that there is no exported program of")
    torch.set_num_threads(threads or os.cpu_count())
    program = torch.export.load(PROGRAM)
    names = [one.name for one in onnx.load_from_string(model).graph.output]
    module = program.module()
    if build == "compiled":
        torch.compiler.reset()
        module = torch.compile(module, dynamic=True)
        with torch.no_grad():
            module(*program.example_inputs[0], **program.example_inputs[1])  # compiles, which is no part of a call

    def run(feeds, wanted):
        with torch.no_grad():  # inputs of the file lie in the order of the program's
            results = module(*(torch.from_numpy(feed) for feed in feeds.values()))
        results = dict(zip(names, results if isinstance(results, (tuple, list)) else [results]))
        return [results[name].numpy() for name in wanted]
    return run
