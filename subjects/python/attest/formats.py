"""Types of elements as rows: what libraries call them, and what numpy holds of them."""
from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    library: str  # the name in numpy (with ml_dtypes), torch, jax and keras
    numpy: np.dtype  # of the array that holds the elements: of unsigned integers, their bits, where numpy has no such number


ROWS = {dtype: Row(library, np.dtype(held)) for dtype, library, held in (
    ("f16", "float16", "f2"), ("bf16", "bfloat16", "u2"), ("f32", "float32", "f4"), ("f64", "float64", "f8"),
    ("i32", "int32", "i4"), ("bool", "bool", "?"))}
FLOATS = [dtype for dtype in ROWS if dtype not in ("i32", "bool")]


def is_coded(dtype):
    """Tells whether numpy holds the bits of such elements and not their numbers."""
    return dtype in ROWS and ROWS[dtype].numpy.kind == "u"


def number_type(dtype):
    """The type of the numbers. Raises ImportError where that is one of ml_dtypes, which is not there."""
    if not is_coded(dtype):
        return ROWS[dtype].numpy
    import ml_dtypes
    return np.dtype(getattr(ml_dtypes, ROWS[dtype].library))


def numbers(array, dtype):
    """The array as numpy holds it, seen as numbers. Raises ImportError as number_type() does."""
    return array.view(number_type(dtype)) if is_coded(dtype) else array


def bits(array, dtype):
    """The same the other way round."""
    return array.view(ROWS[dtype].numpy) if is_coded(dtype) else array


def widened(array, dtype):
    """The numbers, as float32 where numpy holds bits, which are the first of float32's."""
    return (array.astype(np.uint32) << 32 - 8 * array.itemsize).view(np.float32) if is_coded(dtype) else array
