"""Scores or weights that an operator returns beside its output, and what is left of attention behind them."""

import inspect
from dataclasses import dataclass

import numpy as np


def attended(qk, values, softcap=0.0, mask=None, weights=False):
    """The output [B, H, Lq, Dv] that the rest of attention makes of qk [B, H, Lq, Lk], in float64, rounded to the type of the values [B,
    H or fewer heads, Lk, Dv]: a softcap, a mask to add and the softmax, or, of weights, none of these but that keys where the mask is
    -inf are left out. A row without keys is 0."""
    with np.errstate(all="ignore"):
        w = qk.astype(np.float64)
        if softcap:
            w = softcap * np.tanh(w / softcap)
        if weights:
            w = w if mask is None else np.where(np.isneginf(mask), 0, w)
        else:
            w = w if mask is None else w + mask
            w = np.exp(w - np.maximum(w.max(-1, keepdims=True, initial=-np.inf), np.finfo(float).min))
            total = w.sum(-1, keepdims=True)
            w = w / np.where(total == 0, 1, total)
        out = w @ np.repeat(values.astype(np.float64), w.shape[1] // max(values.shape[1], 1), axis=1)
        return out.astype(values.dtype)


@dataclass
class Rest:
    """What makes the call's out of an output of the node."""

    output: str
    weights: bool = False
    softcap: float = 0.0
    mask: np.ndarray = None  # -inf where a key is closed
    keys: tuple = (None, None)  # first and last + 1 of the call's keys that the output speaks of

    def out(self, qk, values):
        return attended(qk, values[:, :, slice(*self.keys)], self.softcap, self.mask, self.weights)

    def text(self, qk, literal):
        """The same in a script that has source() and the call's values as `v`."""
        keys = "" if self.keys == (None, None) else "[:, :, {}:{}]".format(*self.keys)
        how = "".join((f", softcap={self.softcap!r}" if self.softcap else "",
                       f", mask=np.array({literal(self.mask)})" if self.mask is not None else "",
                       ", weights=True" if self.weights else ""))
        return f"attended({qk}, v{keys}{how})"

    @staticmethod
    def source():
        return inspect.getsource(attended)
