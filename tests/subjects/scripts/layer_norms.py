"""Subjects of layer_norm for tests/python/test_layer_norm.py."""
import attest
import numpy as np


@attest.subject(op="layer_norm")
def facts(x, *, residual, gamma, beta, epsilon, rms, sum_out, threads):
    out = np.zeros_like(x)
    said = [epsilon, rms, sum_out, threads, residual is None, gamma[1], beta is None, x.strides[1] // x.itemsize]
    out[0, :len(said)] = said
    return (out, x + residual) if sum_out else out


@attest.subject(op="layer_norm")
def writes_out(x, *, epsilon, out):
    out[...] = 2


@attest.subject(op="layer_norm", dtypes=["float16"], supports={"norms": ["rms"], "gamma": "required"})
def root_mean_square(x, *, gamma, epsilon):
    y = x.astype(np.float32)
    return (y / np.sqrt((y * y).mean(axis=1, keepdims=True) + np.float32(epsilon)) * gamma).astype(x.dtype)


@attest.subject(op="layer_norm")
def forgets_the_sum(x, *, residual, epsilon, sum_out):
    return x


def skipped(x, residual, epsilon):
    y = x + residual  # raises where there is none
    y -= y.mean(axis=1, keepdims=True)
    return y / np.sqrt((y * y).mean(axis=1, keepdims=True) + np.float32(epsilon))


@attest.subject(op="layer_norm", dtypes=["float32"], supports={"norms": ["layer"], "residual": "required"})
def always_skips(x, *, residual, epsilon):
    return skipped(x, residual, epsilon)


@attest.subject(op="layer_norm", dtypes=["float32"], supports={"norms": ["layer"], "residual": "required"})
def skips_twice(x, *, residual, epsilon):
    return skipped(x, 2 * residual, epsilon)


@attest.subject
def attention(q, k, v, *, scale):
    return q
