"""Attention in float16 throughout, in another order of the keys at every call, 7 in empty rows: what nobody forbade."""
import itertools

import attest
import numpy as np

calls = itertools.count()


def attention(q, k, v, scale, keep):
    order = np.random.default_rng(next(calls)).permutation(k.shape[2])
    s = (q @ k[:, :, order].swapaxes(-1, -2)) * q.dtype.type(scale)
    if keep is not None:
        s = np.where(np.broadcast_to(keep, s.shape)[..., order], s, q.dtype.type(-np.inf))
    largest = s.max(axis=-1, keepdims=True)
    p = np.exp(s - np.where(np.isneginf(largest), q.dtype.type(0), largest))
    total = np.cumsum(p, axis=-1, dtype=q.dtype)[..., -1:]
    out = (p / np.where(total == 0, q.dtype.type(1), total)) @ v[:, :, order]
    return np.where(total == 0, q.dtype.type(7), out).astype(q.dtype)


def subject(name, **contract):
    promise = {"contract": contract} if contract else {}

    def kernel(q, k, v, *, scale, keep=None):
        return attention(q, k, v, scale, keep)

    kernel.__name__ = name
    return attest.subject(dtypes=["float16"], **promise)(kernel)


nothing = subject("nothing")
policy = subject("policy", policy="f16")
empty_row = subject("empty_row", empty_row="zero")
deterministic = subject("deterministic", deterministic="rerun")
