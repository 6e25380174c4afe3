"""mlx.core.fast.scaled_dot_product_attention on the CPU.

Document: the function's docstring in mlx 0.32.4, the text of
https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.fast.scaled_dot_product_attention.html. DOCUMENTS and
REFUSED have the sentences relied on. They are read as follows:
- precision: softmax is in float32 for float64, too. Nothing is said on the other steps;
- scale is not optional;
- masks: a float32 mask may have half of the bits of nothing but itself, so a float16 or bfloat16 mask goes beside float32 and
  float64, any beside float64. No document says which value of a boolean mask lets a key take part; attest asks for True, as all
  others have it.
sinks is left at its default, and force_fused, which is for another device. Nothing is said on empty rows, NaN, determinism,
batches: nothing is claimed.
"""

from importlib.metadata import version

import ml_dtypes
import mlx.core as mx
import numpy as np

from attest import Unsupported

from ._arguments import given, laid
from ._array_sdpa import ArraySdpa, Asked, STORED
from ._masks import BOTTOM_RIGHT, causal_alone, one_mask, shaped

TYPES = {dtype: getattr(mx, name.replace("bool", "bool_")) for dtype, name in STORED.items()}
_PROMOTE = {"f32": ("f32", "f16", "bf16"), "f64": ("f64", "f32", "f16", "bf16"), "f16": ("f16",), "bf16": ("bf16",)}

# (document, sentence), as tests/python/refusal_documents.py finds it.
_DOCSTRING = "docstring of mlx.core.fast.scaled_dot_product_attention"
_PROMOTED = (_DOCSTRING, "If an additive mask is given its type must promote to the promoted type of q, k, and v.")
REFUSED = {
    "scaled_dot_product_attention has no softcap": (
        _DOCSTRING, "scaled_dot_product_attention(q: array, k: array, v: array, *, scale: float, mask: None | str | array = "
                    "None, sinks: array | None = None, force_fused: bool = False, stream: StreamOrDevice = None) -> array"),
    "an additive mask's type must promote to the promoted type of q, k, and v": _PROMOTED,
}
_MASK = (_DOCSTRING, "If the mask is an array it can be a boolean or additive mask.")
_SHAPE = (
    _DOCSTRING, "The mask can have at most 4 dimensions and must be broadcast-compatible with the shape [B, N, T_q, T_kv].")
_CAUSAL = (_DOCSTRING, 'The "causal" mask uses lower-right alignment where the last query aligns with the last key.')
DOCUMENTS = {
    "attention": (_DOCSTRING, "O = softmax(Q @ K.T, dim=-1) @ V"),
    "policy": (_DOCSTRING, "The softmax operation is performed in float32 regardless of the input precision."),
    "gqa": (
        _DOCSTRING, "For Grouped Query Attention and Multi-Query Attention, the k and v inputs should not be pre-tiled to match "
                    "q."),
    "bias": [_MASK, _PROMOTED, _SHAPE],
    "keep": [_MASK, _SHAPE],
    "kv_lengths": _MASK,
    "window": _MASK,
    "causal": _CAUSAL,
    "align": _CAUSAL,
    "scale": (_DOCSTRING, "Scale for queries (typically 1.0 / sqrt(q.shape(-1))."),
    "form.mask": _SHAPE,
    "form.mask_type": _MASK,
    "form.causal=word": [(_DOCSTRING, 'The only supported string type is "causal".'), _CAUSAL],
}


class Sdpa(ArraySdpa):
    library = "mlx"
    release = "mlx 0.32.4"
    documents = DOCUMENTS
    version = f"mlx {version('mlx')}"
    dtypes = ("f32", "f64", "bf16", "f16")
    forms = {
        "mask": ["narrowed", "full", "lowest"],  # length 1 where it is broadcast, written out, of the lowest rank
        "mask_type": ["bool", "float"],
        "causal": ["word", "mask"],  # "causal"
    }
    supports = {"bias_dtypes": ["same", "f32", "f16", "bf16"]}
    contract = {
        "policy": {"f32": "f32", "f64": "f64,softmax=f32", "f16": "f16-all,softmax=f32", "bf16": "bf16-all,softmax=f32"},
        "exp_ulp": dict.fromkeys(dtypes, ArraySdpa.contract["exp_ulp"]["f32"]),
    }

    def asked(self, call):
        if call.softcap > 0:
            raise Unsupported("scaled_dot_product_attention has no softcap")
        if call.bias is not None and call.bias_dtype not in _PROMOTE[call.dtype]:
            raise Unsupported("an additive mask's type must promote to the promoted type of q, k, and v")
        said = self.said(call)
        arguments = {name: laid(call, name, "bhld") for name in "qkv"}
        options = {"scale": call.scale}
        ends_bottom_right = call.align == BOTTOM_RIGHT or call.q.shape[2] == call.k.shape[2]
        if said["causal"] == "word" and causal_alone(call) and ends_bottom_right:
            options["mask"] = "causal"
        else:
            mask, dtype = one_mask(call, said["mask_type"] == "float")
            if mask is not None:
                arguments["mask"] = given(shaped(mask, call, said["mask"]), dtype, call)
        return Asked(arguments, options, "bhld")

    def run(self, asked, said):
        arguments = {name: tensor(argument) for name, argument in asked.arguments.items()}
        with mx.stream(mx.cpu):
            output = mx.fast.scaled_dot_product_attention(**arguments, **asked.options)
            mx.eval(output)
        return output

    def array(self, output):
        if output.dtype == mx.bfloat16:
            return np.array(output.view(mx.uint16)).view(ml_dtypes.bfloat16)
        return np.array(output)

    def made(self, argument):
        kind = "bool_" if argument.dtype == "bool" else STORED[argument.dtype]
        return f"mx.array({argument.text}, mx.{kind})"

    def head(self, asked, said):
        return "import mlx.core as mx\nmx.set_default_device(mx.cpu)\n"

    def called(self, arguments, asked, said):
        return f"np.array(mx.fast.scaled_dot_product_attention({arguments}).astype(mx.float64))"


def tensor(argument):
    if argument.dtype == "bf16":
        return mx.array(argument.array).view(mx.bfloat16)
    return mx.array(argument.array, TYPES[argument.dtype])
