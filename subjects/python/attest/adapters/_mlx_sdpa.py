"""mlx.core.fast.scaled_dot_product_attention on the CPU.

Document: the function's docstring in mlx 0.32.4, the text of
https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.fast.scaled_dot_product_attention.html. How it is read:
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
from ._forms import refuse
from ._masks import BOTTOM_RIGHT, causal_alone, one_mask, shaped
from ._quotes import quotes

TYPES = {dtype: getattr(mx, name.replace("bool", "bool_")) for dtype, name in STORED.items()}
_PROMOTE = {"f32": ("f32", "f16", "bf16"), "f64": ("f64", "f32", "f16", "bf16"), "f16": ("f16",), "bf16": ("bf16",)}

DOCUMENTS = quotes("""
docstring of mlx.core.fast.scaled_dot_product_attention
    attention | O = softmax(Q @ K.T, dim=-1) @ V
    policy | The softmax operation is performed in float32 regardless of the input precision.
    gqa | For Grouped Query Attention and Multi-Query Attention, the k and v inputs should not be pre-tiled to match q.
    bias keep kv_lengths window form.mask_type | If the mask is an array it can be a boolean or additive mask.
    bias ! an additive mask's type must promote to the promoted type of q, k, and v | If an additive mask is given its type must promote to the promoted type of q, k, and v.
    bias keep form.mask | The mask can have at most 4 dimensions and must be broadcast-compatible with the shape [B, N, T_q, T_kv].
    scale | Scale for queries (typically 1.0 / sqrt(q.shape(-1)).
    form.causal=word | The only supported string type is "causal".
    causal align form.causal=word | The "causal" mask uses lower-right alignment where the last query aligns with the last key.
    ! scaled_dot_product_attention has no softcap | scaled_dot_product_attention(q: array, k: array, v: array, *, scale: float, mask: None | str | array = None, sinks: array | None = None, force_fused: bool = False, stream: StreamOrDevice = None) -> array
""")


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
        refuse(call.softcap > 0, "scaled_dot_product_attention has no softcap")
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
