"""Turns a call's views into the arrays a kernel works on, and back: no copy, no conversion."""
import numpy as np

from .protocol import Unsupported


class HostArrays:
    """Arrays in the call's own memory: a call needs no place of its own."""

    capability = None  # a device of NVIDIA's has one

    def prepare(self):
        """Prepares a life before its first call."""

    def begin(self, _call):
        return self

    def target(self, view, _dtype):
        """The memory that a result of that view goes to."""
        return view

    def run(self, function, *arguments, **options):
        return function(*arguments, **options)

    def end(self, results):
        for array, target in results:
            if array is not target:
                target[...] = array


class NumpyArrays(HostArrays):
    def __init__(self):
        try:
            from ml_dtypes import bfloat16
            self.bfloat16 = np.dtype(bfloat16)
        except ImportError:
            self.bfloat16 = None
        self.names = {np.dtype(np.float16): "f16", np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
        if self.bfloat16 is not None:
            self.names[self.bfloat16] = "bf16"

    def enter(self, view, dtype):
        if dtype != "bf16":
            return view
        if self.bfloat16 is None:
            raise Unsupported("numpy has no bfloat16: install ml_dtypes, or annotate the function with torch.Tensor")
        return view.view(self.bfloat16)

    def leave(self, result):
        """The result as (array of plain bits, name of its dtype). Raises TypeError naming what it is instead."""
        if not isinstance(result, np.ndarray):
            raise TypeError(type(result).__name__)
        name = self.names.get(result.dtype) or str(result.dtype)
        return (result.view(np.uint16) if name == "bf16" else result), name


class TorchArrays(HostArrays):
    def __init__(self):
        import torch
        self.torch = torch
        self.device = torch.device("cpu")
        self.names = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64"}

    def enter(self, view, dtype):
        if dtype == "bf16":
            return self.torch.from_numpy(view.view(np.int16)).view(self.torch.bfloat16)
        return self.torch.from_numpy(view)

    def leave(self, result):
        if not isinstance(result, self.torch.Tensor):
            raise TypeError(type(result).__name__)
        result = result.detach().cpu()
        name = self.names.get(result.dtype) or str(result.dtype)
        if name == "bf16":
            return result.view(self.torch.int16).numpy().view(np.uint16), name
        return result.numpy(), name
