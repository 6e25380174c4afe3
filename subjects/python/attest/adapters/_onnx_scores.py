"""Scores or weights that an operator returns beside its output, and what is left of attention behind them."""

import inspect
from dataclasses import dataclass

import numpy as np

from ._forms import refuse
from ._masks import keep_of, narrowed
from ._quotes import refusals

REFUSED = refusals("""
schema of com.microsoft MultiHeadAttention-1 | ! whether the bias is in {output} is not said | normalized Q * K
schema of com.microsoft DecoderMaskedMultiHeadAttention-1 | ! whether the bias is in {output} is not said | normalized Q * K
""")


def attended(qk, values, softcap=0.0, mask=None, kind="scores"):
    """The output [B, H, Lq, Dv] that the rest of attention makes of qk [B, H, Lq, Lk], in float64, rounded to the type of the values [B,
    H or fewer heads, Lk, Dv]: of scores a softcap, a mask to add and the softmax; of "masked" scores and of "weights" nothing but that
    keys where the mask is -inf are left out, and of the former the softmax. A row without keys is 0."""
    with np.errstate(all="ignore"):
        w = qk.astype(np.float64)
        if softcap:
            w = softcap * np.tanh(w / softcap)
        if mask is not None:
            w = w + mask if kind == "scores" else np.where(np.isneginf(mask), 0 if kind == "weights" else -np.inf, w)
        if kind != "weights":
            w = np.exp(w - np.maximum(w.max(-1, keepdims=True, initial=-np.inf), np.finfo(float).min))
            total = w.sum(-1, keepdims=True)
            w = w / np.where(total == 0, 1, total)
        out = w @ np.repeat(values.astype(np.float64), w.shape[1] // max(values.shape[1], 1), axis=1)
        return out.astype(values.dtype)


@dataclass
class Rest:
    """What makes the call's out of an output of the node."""

    output: str
    kind: str = "scores"  # or "masked", "weights": see attended()
    softcap: float = 0.0
    mask: np.ndarray = None  # -inf where a key is closed
    keys: tuple = (None, None)  # first and last + 1 of the call's keys that the output speaks of

    def out(self, qk, values):
        return attended(qk, values[:, :, slice(*self.keys)], self.softcap, self.mask, self.kind)

    def text(self, qk, literal):
        """The same in a script that has source() and the call's values as `v`."""
        keys = "" if self.keys == (None, None) else "[:, :, {}:{}]".format(*self.keys)
        how = "".join((f", softcap={self.softcap!r}" if self.softcap else "",
                       f", mask=np.array({literal(self.mask)})" if self.mask is not None else "",
                       f", kind={self.kind!r}" if self.kind != "scores" else ""))
        return f"attended({qk}, v{keys}{how})"

    @staticmethod
    def source():
        return inspect.getsource(attended)


def normalised_scores(output, call):
    """The rest behind scores of which nobody says whether masks are in them: the keys that are open, softmax and values."""
    refuse(call.bias is not None, f"whether the bias is in {output} is not said")
    keep = keep_of(call, None if call.keep is None else narrowed(call.keep))
    return Rest(output, "masked", mask=None if keep is None else np.where(keep, 0, -np.inf))
