"""Turns a call's views into the arrays a kernel works on, and back: no copy, no conversion."""
import numpy as np

from .formats import FLOATS, ROWS, bits, is_coded, number_type, numbers
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
        self.names = {}
        for dtype in FLOATS:
            try:
                self.names[number_type(dtype)] = dtype
            except ImportError:
                pass  # enter() says so

    def enter(self, view, dtype):
        try:
            return numbers(view, dtype)
        except ImportError:
            raise Unsupported(f"numpy has no {ROWS[dtype].library}: install ml_dtypes, or annotate the function with torch.Tensor") from None

    def leave(self, result):
        """The result as (array of plain bits, name of its dtype). Raises TypeError naming what it is instead."""
        if not isinstance(result, np.ndarray):
            raise TypeError(type(result).__name__)
        name = self.names.get(result.dtype) or str(result.dtype)
        return bits(result, name), name


class TorchArrays(HostArrays):
    def __init__(self):
        import torch
        self.torch = torch
        self.device = torch.device("cpu")
        self.names = {getattr(torch, ROWS[dtype].library): dtype for dtype in FLOATS}

    def enter(self, view, dtype):
        if is_coded(dtype):
            return self.torch.from_numpy(view.view(f"i{view.itemsize}")).view(getattr(self.torch, ROWS[dtype].library))
        return self.torch.from_numpy(view)

    def leave(self, result):
        if not isinstance(result, self.torch.Tensor):
            raise TypeError(type(result).__name__)
        result = result.detach().cpu()
        name = self.names.get(result.dtype) or str(result.dtype)
        if is_coded(name):
            held = ROWS[name].numpy
            return result.view(getattr(self.torch, f"int{8 * held.itemsize}")).numpy().view(held), name
        return result.numpy(), name
