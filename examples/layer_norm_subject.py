"""A Python subject of layer_norm for attest: LayerNorm and RMSNorm in numpy, and the same with a defect for attest to find.

    attest fuzz examples/layer_norm_subject.py:plain
    attest fuzz examples/layer_norm_subject.py:epsilon_outside
"""
import attest
import numpy as np


def normalised(x, residual, gamma, beta, rms, sum_out, root):
    """In float32, rounded to the type of x once, at the end; the sum is rounded before it is normalised."""
    dtype = x.dtype
    if residual is not None:
        x = (x.astype(np.float32) + residual.astype(np.float32)).astype(dtype)
    y = x.astype(np.float32)
    if not rms:
        y = y - y.mean(axis=1, keepdims=True)
    y = y / root((y * y).mean(axis=1, keepdims=True))
    if gamma is not None:
        y = y * gamma.astype(np.float32)
    if beta is not None:
        y = y + beta.astype(np.float32)
    return (y.astype(dtype), x) if sum_out else y.astype(dtype)


options = {"op": "layer_norm", "dtypes": ["float16", "float32"], "contract": {"policy": {"f16": "f16", "f32": "f32"}, "deterministic": "rerun"}}


@attest.subject(**options)
def plain(x, *, residual=None, gamma=None, beta=None, epsilon, rms=False, sum_out=False):
    return normalised(x, residual, gamma, beta, rms, sum_out, lambda v: np.sqrt(v + np.float32(epsilon)))


@attest.subject(**options)
def epsilon_outside(x, *, residual=None, gamma=None, beta=None, epsilon, rms=False, sum_out=False):
    return normalised(x, residual, gamma, beta, rms, sum_out, lambda v: np.sqrt(v) + np.float32(epsilon))
