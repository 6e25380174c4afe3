"""paddle.nn.functional.scaled_dot_product_attention and its twin in paddle.compat.nn.functional, on the CPU.

Documents: the docstrings of both in paddlepaddle 3.3.1, the text of
https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/nn/functional/scaled_dot_product_attention_en.html and its
neighbour. They are read as follows:
- types: on the CPU the reverse of what they say holds: there are no kernels for float16 and bfloat16, and "math" takes float32
  and float64. So flash_attention, which "is only support inputs with dtype float16 and bfloat16", is not for the CPU;
- masks: the shape that is named means the queries first;
- is_causal: a causal mask beside another goes in as a mask; compat says which diagonal that is where there are more keys than
  queries, or fewer, and the other function is taken to mean the same.
dropout_p is left at its default, 0. Nothing is said on precision, empty rows, NaN, determinism, batches: nothing is claimed.
"""

import paddle
from paddle.compat.nn import functional as compat
from paddle.nn import functional

from ._arguments import given, laid
from ._array_sdpa import ArraySdpa, Asked
from ._forms import refuse
from ._masks import causal_alone, one_mask, shaped, starts_top_left
from ._quotes import quotes

_FUNCTIONS = {"functional": functional.scaled_dot_product_attention, "compat": compat.scaled_dot_product_attention}

_LAYOUTS = {("functional", "4d"): "blhd", ("functional", "3d"): "lhd", ("compat", "4d"): "bhld", ("compat", "3d"): "hld"}

paddle.set_device("cpu")

DOCUMENTS = quotes(r"""
signature of paddle.nn.functional.scaled_dot_product_attention | ! scaled_dot_product_attention has no softcap | (query, key, value, attn_mask, dropout_p, is_causal, training, backend, scale, enable_gqa, name)
signature of paddle.compat.nn.functional.scaled_dot_product_attention | ! scaled_dot_product_attention has no softcap | (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
docstring of paddle.nn.functional.scaled_dot_product_attention
    attention | result=softmax(\frac{ Q * K^T }{\sqrt{d}}) * V
    attention | The dimensions of the three parameters are the same.
    dtypes | The dtype can be float16 or bfloat16.
    dtypes | This API only verifies inputs with dtype float16 and bfloat16, other dtypes may fall back to math implementation, which is less optimized.
    gqa form.gqa | Whether enable GQA(Group Query Attention) mode. Default is True.
    bias | The dtype can be bool or same type of query.
    bias form.mask_type=float | The non-bool mask will be added to attention score.
    keep kv_lengths window form.mask_type=bool | The bool mask indicates the positions should take part in attention.
    bias keep form.mask | The shape should be broadcastable to [batch_size, num_heads, seq_len_key, seq_len_query].
    causal form.causal=flag | If is_causal is set to True, the causal mask should not be provided, otherwise the provided mask will be ignored.
    scale form.scale | The scaling factor used in the calculation of attention weights. If None, scale = 1 / sqrt(head_dim).
    form.rank=4d | 4-D tensor with shape: [batch_size, seq_len_key, num_heads, head_dim].
    form.rank=3d ! without a batch there is one sample | 3-D tensor with shape: [seq_len_key, num_heads, head_dim].
docstring of paddle.compat.nn.functional.scaled_dot_product_attention
    gqa form.gqa | Whether enable GQA mode. Default False.
    causal form.causal=flag | The attention masking has the form of the upper left causal bias when the mask is a non-square matrix.
    form.function=compat | result=softmax(\frac{ Q * K^T }{\sqrt{d}}) * V
    form.rank=3d ! without a batch there is one sample | 3-D tensor with shape: [num_heads, seq_len, head_dim].
""")


class Sdpa(ArraySdpa):
    library = "paddle"
    release = "paddlepaddle 3.3.1"
    documents = DOCUMENTS
    version = f"paddlepaddle {paddle.__version__}"
    dtypes = ("f32", "f64")
    forms = {
        "function": ["functional", "compat"],
        "rank": ["4d", "3d"],
        "mask": ["narrowed", "full", "lowest"],  # length 1 where it is broadcast, written out, of the lowest rank
        "mask_type": ["bool", "float"],
        "causal": ["flag", "mask"],
        "scale": ["as_called", "explicit"],
        "gqa": ["as_needed", "enabled"],  # enable_gqa
    }

    def asked(self, call):
        refuse(call.softcap > 0, "scaled_dot_product_attention has no softcap")
        said = self.said(call)
        refuse(said["rank"] == "3d" and call.q.shape[0] != 1, "without a batch there is one sample")
        layout = _LAYOUTS[said["function"], said["rank"]]
        arguments = {name: laid(call, view, layout) for name, view in (("query", "q"), ("key", "k"), ("value", "v"))}
        flag = said["causal"] == "flag" and causal_alone(call) and starts_top_left(call)
        mask, dtype = (None, None) if flag else one_mask(call, said["mask_type"] == "float")
        if mask is not None:
            arguments["attn_mask"] = given(shaped(mask, call, said["mask"]), dtype, call)
        options = {"is_causal": True} if flag else {}
        if not call.scale_is_default or said["scale"] == "explicit":
            options["scale"] = call.scale
        if said["gqa"] == "enabled" or said["function"] == "compat" and call.q.shape[1] != call.k.shape[1]:
            options["enable_gqa"] = True
        return Asked(arguments, options, layout)

    def run(self, asked, said):
        arguments = {name: paddle.to_tensor(argument.array) for name, argument in asked.arguments.items()}
        return _FUNCTIONS[said["function"]](**arguments, **asked.options)

    def array(self, output):
        return output.numpy()

    def reason(self, lines):
        """Paddle draws its traceback first, and its sentence last."""
        said = [line for line in lines if not line.startswith(("[Hint", "-", "0 ", "Error Message", "C++ Traceback"))]
        return super().reason(said[-1:] or lines)

    def made(self, argument):
        return f"paddle.to_tensor({argument.text})"

    def head(self, asked, said):
        return 'import paddle, paddle.compat.nn.functional\npaddle.set_device("cpu")\n'

    def called(self, arguments, asked, said):
        module = {"functional": "paddle.nn.functional", "compat": "paddle.compat.nn.functional"}[said["function"]]
        return f"{module}.scaled_dot_product_attention({arguments}).numpy()"
