"""keras.ops.dot_product_attention by its public face.

Document: the function's docstring in keras 3.15.1, the text of https://keras.io/api/ops/nn/#dot_product_attention-function, one
for all backends. How it is read:
- masks and bias are of any rank, and have length 1 along any of their axes;
- is_causal: which diagonal that is where T is not S is not said: the flag is asked where the problem has it at the top left, a
  mask elsewhere.
flash_attention is left at its default. Nothing is said on precision, empty rows, NaN, determinism, batches: nothing is claimed.
float64 is offered on TensorFlow alone: elsewhere keras.backend.result_type, which attempts to match jnp.result_type, makes
float32 of it, so that no operation has a result of that type.
"""

import keras
import ml_dtypes

from attest.formats import numbers

from ._arguments import given, laid
from ._array_sdpa import ArraySdpa, Asked, STORED
from ._forms import refuse
from ._masks import added_to, keep_of, narrowed, shaped, starts_top_left
from ._quotes import quotes

DOCUMENTS = quotes("""
docstring of keras.backend.result_type | dtypes | This function attempts to match the result of jnp.result_type.
docstring of keras.ops.dot_product_attention
    attention | attention(Q, K, V) = softmax(Q * K / sqrt(d)) * V.
    attention | The query array with the shape of (B, T, N, H).
    attention | The value array with the same shape of key.
    gqa | The key array with the shape of (B, S, K, H). When K equals N, multi-headed attention (MHA) is performed. Otherwise, grouped query attention (GQA) is performed if N is a multiple of K. and multi-query attention (MQA) is performed if K==1 (a special case of GQA).
    bias | Optional bias array to be added to logits.
    keep kv_lengths window form.mask_type=bool | It is a boolean mask where True indicates the element should take part in attention.
    bias keep form.mask | The shape must be broadcastable to (B, N, T, S).
    causal form.causal=flag | Whether to apply causal mask.
    scale form.scale | If None, the scale will be set to 1.0 / sqrt(H).
    form.mask_type=bias | For an additive mask, users should pass it to bias.
    ! attn_logits_soft_cap is only supported in JAX TPU backend | This is only supported in JAX TPU backend.
""")


# XLA and TensorFlow compute with subnormals taken for zero, the processor's products of bfloat16 on PyTorch do, whose exp for
# float32 is off by 20 ulp (_torch_call.py); nothing promises otherwise.
_NO_PROMISE = {
    "numpy": {}, "jax": {"flush_to_zero": True}, "tensorflow": {"flush_to_zero": True},
    "torch": {"exp_ulp": {"f32": 20}, "flush_to_zero": {"bf16": True}},
}


class Sdpa(ArraySdpa):
    library = "keras"
    release = "keras 3.15.1"
    documents = DOCUMENTS
    forms = {
        "mask": ["narrowed", "full", "lowest"],  # length 1 where it is broadcast, written out, of the lowest rank
        "mask_type": ["bool", "bias"],
        "causal": ["flag", "mask"],
        "scale": ["as_called", "explicit"],
    }

    def __init__(self, backend, **pinned):
        super().__init__(backend, **pinned)
        self.backend = backend
        self.contract = ArraySdpa.contract | _NO_PROMISE[backend]
        self.dtypes = ("f32", "bf16", "f16") + (("f64",) if backend == "tensorflow" else ())
        if keras.config.backend() != backend:
            raise RuntimeError(f"this process has Keras on {keras.config.backend()} already, and there is one backend a process")
        self.version = f"keras {keras.__version__}, {backend} {__import__(backend).__version__}"

    def asked(self, call):
        refuse(call.softcap > 0, "attn_logits_soft_cap is only supported in JAX TPU backend")
        said = self.said(call)
        arguments = {name: laid(call, view, "blhd") for name, view in (("query", "q"), ("key", "k"), ("value", "v"))}
        flag = said["causal"] == "flag" and call.causal and starts_top_left(call)
        keep = keep_of(call, None if call.keep is None else narrowed(call.keep), causal=not flag)
        bias = None if call.bias is None else narrowed(call.bias)
        if keep is not None and said["mask_type"] == "bias":
            keep, bias = None, added_to(call, keep, call.dtype, bias)
        if bias is not None:
            arguments["bias"] = given(shaped(bias, call, said["mask"]), call.dtype, call)
        if keep is not None:
            arguments["mask"] = given(shaped(keep, call, said["mask"]), "bool", call)
        options = {"is_causal": True} if flag else {}
        if not call.scale_is_default or said["scale"] == "explicit":
            options["scale"] = call.scale
        return Asked(arguments, options, "blhd")

    def run(self, asked, said):
        return keras.ops.dot_product_attention(**{name: tensor(a) for name, a in asked.arguments.items()}, **asked.options)

    def array(self, output):
        array = keras.ops.convert_to_numpy(output)
        return array.astype(ml_dtypes.bfloat16) if keras.backend.standardize_dtype(output.dtype) == "bfloat16" else array

    def made(self, argument):
        return f'keras.ops.convert_to_tensor({argument.text}, "{STORED[argument.dtype]}")'

    def head(self, asked, said):
        return f'import os\nos.environ["KERAS_BACKEND"] = "{self.backend}"\nimport keras\n'

    def called(self, arguments, asked, said):
        return f"np.asarray(keras.ops.convert_to_numpy(keras.ops.dot_product_attention({arguments})), np.float64)"


def tensor(argument):
    return keras.ops.convert_to_tensor(numbers(argument.array, argument.dtype), STORED[argument.dtype])
