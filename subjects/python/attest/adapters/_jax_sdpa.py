"""jax.nn.dot_product_attention by its public face.

Document: the function's docstring in jax 0.10.2, the text of
https://docs.jax.dev/en/latest/_autosummary/jax.nn.dot_product_attention.html. How it is read:
- masks and bias: they have length 1 or full length along each of their axes, and any of four types is a bias;
- is_causal: which diagonal that is where T is not S is not said: the flag is asked where the problem has it at the top left, a
  mask elsewhere;
- query lengths that are shorter than the queries are not asked: nothing is said on the rows past them;
- windows: no word stands for an open side: as many keys as there are do;
- softmax: exp of the scores as they are, so that no power of 2 of larger numbers takes its place;
- return_residual: its type is the key's, and attest's log-sum-exp is float32 or float64: jax:sdpa-residual asks for it, of these;
- implementation: it is pinned to what it falls back to.
Nothing is said on precision, empty rows, NaN, determinism, batches: nothing is claimed. float64 takes jax_enable_x64, as
everything of jax does. The log-sum-exp of a row without keys is some large negative number there, where nothing is promised;
attest's word for such a row, -inf, is written by this adapter.
"""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np

from attest import Unsupported
from attest.formats import numbers

from ._arguments import given, laid, unlaid
from ._array_sdpa import ArraySdpa, Asked, STORED
from ._forms import drawn, may_be_empty, refuse
from ._masks import added_to, keep_of, narrowed, open_keys, shaped, starts_top_left, windowed
from ._quotes import quotes

_STATIC = ("scale", "is_causal", "local_window_size", "implementation", "return_residual")
_KEPT_PLANS = 64  # XLA compiles each shape anew, and keeps megabytes of it

DOCUMENTS = quotes(r"""
docstring of jax.jit | form.compiled=jit | Sets up fun for just-in-time compilation with XLA.
signature of jax.nn.dot_product_attention | ! jax.nn.dot_product_attention has no softcap | (query, key, value, bias, mask, scale, is_causal, query_seq_lengths, key_value_seq_lengths, local_window_size, implementation, return_residual)
source of jax._src.nn.functions | ! the residual has the type of the key, and this log-sum-exp has another | logsumexp(padded_logits, axis=-1).astype(key.dtype)
docstring of jax.nn.dot_product_attention
    - | Supported strings are xla, cudnn
    - | which currently falls back to xla
    attention | \mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left( \frac{QK^T}{\sqrt{d}} + B \right) V
    attention | value array, should have the same shape as the key array.
    gqa | Otherwise, grouped query attention (GQA https://arxiv.org/abs/2305.13245) is performed if N is a multiple of K, and multi-query attention (MQA https://arxiv.org/abs/1911.02150) is performed if K == 1
    bias | optional, bias array to be added to logits;
    keep form.mask_type=bool | It is a boolean mask where True indicates the element should take part in attention.
    bias keep form.mask | The shape must be 4D and be broadcastable to (BNTS|NTS).
    causal form.causal=flag | If true, causal attention will be applied.
    kv_lengths | int32 array of sequence lengths for key and value; shape (B)
    window form.window | If set, this specifies the (left_window_size, right_window_size) for each token. E.g., if local_window_size == (3, 2) and the sequence is [0, 1, 2, 3, 4, 5, c, 7, 8, 9], token c can attend to [3, 4, 5, c, 7, 8].
    scale form.scale | If None, the scale will be set to 1 divided by the square root of query's head dimension (i.e. H).
    lse | Whether to return the logsumexp tensor of shape BTN or BNT to users.
    lse | The residual is the shape of BTN|TN.
    form.rank ! without a batch there is one sample | query array; shape (BTNH|TNH)
    form.mask_type=bias | For an additive mask, users should pass it to bias.
    form.window=int | If a single int is given, it will be interpreted as a symmetric window (window_size, window_size).
    form.lengths=full | int32 array of sequence lengths for query; shape (B)
docstring of jax.nn.softmax | attention | \mathrm{softmax}(x) = \frac{\exp(x_i)}{\sum_j \exp(x_j)}
""")


class Jax(ArraySdpa):
    """A function of JAX arrays. A subclass has `function`, and `source`, what a script calls it by."""

    library = "jax"
    times = {"plan_ms": 500}
    version = f"jax {jax.__version__}"
    release = "jax 0.10.2"
    dtypes = ("f32", "f64", "bf16", "f16")
    # XLA computes with subnormals taken for zero, and nothing promises otherwise.
    contract = ArraySdpa.contract | {"flush_to_zero": True, "exp2": False}
    static = ()
    plans = {}  # of all of these subjects, since they were last forgotten: what compiling raised, or None

    def __init__(self, name, **pinned):
        super().__init__(name, **pinned)
        self.compiled = jax.jit(self.function, static_argnames=self.static)

    def run(self, asked, said):
        jit = said["compiled"] == "jit"
        plan = (self.name, jit, wide(asked, said), *asked.options.items(),
                *((name, argument.dtype, argument.array.shape) for name, argument in asked.arguments.items()))
        self.keep(plan)
        if error := Jax.plans[plan]:
            raise error.with_traceback(None)
        with jax.enable_x64(True) if wide(asked, said) else nullcontext():
            arguments = {name: tensor(argument) for name, argument in asked.arguments.items()}
            try:
                return jax.block_until_ready((self.compiled if jit else self.function)(**arguments, **asked.options))
            except Exception:
                Jax.plans[plan] = self.compile_error(arguments, asked.options) if jit else None
                raise

    def keep(self, plan):
        """Forgets the plans that are kept where one more would be too many."""
        if plan not in Jax.plans and len(Jax.plans) == _KEPT_PLANS:
            jax.clear_caches()
            Jax.plans.clear()
        Jax.plans.setdefault(plan)

    def compile_error(self, arguments, options):
        """What compiling such a call raises, whatever its numbers; XLA, which keeps what compiles, would try again each time."""
        try:
            self.compiled.lower(**arguments, **options).compile()
        except Exception as error:  # of many types
            error.__context__ = None  # which holds the arrays of the call, as its traceback does
            return error.with_traceback(None)
        return None

    def array(self, output):
        return np.asarray(output)

    def made(self, argument):
        return f"jnp.asarray({argument.text}, jnp.{STORED[argument.dtype]})"

    def head(self, asked, said):
        x64 = 'jax.config.update("jax_enable_x64", True)\n' if wide(asked, said) else ""
        return "import jax, jax.numpy as jnp\n" + x64

    def called(self, arguments, asked, said):
        static = f", static_argnames={self.static}" if self.static else ""
        function = f"jax.jit({self.source}{static})" if said["compiled"] == "jit" else self.source
        residual = "[0]" if asked.options.get("return_residual") else ""
        return f"np.asarray({function}({arguments}){residual}, np.float64)"


class Sdpa(Jax):
    documents = DOCUMENTS
    forms = {
        "compiled": ["jit", "eager"],
        "rank": ["btnh", drawn("tnh", "b==1")],
        "mask": ["narrowed", "full"],  # length 1 along the axes where it is broadcast, or written out
        "mask_type": ["bool", "bias"],
        "causal": ["flag", "mask"],
        "window": ["tuple", "int", "mask"],  # int: where both sides are equal
        "lengths": ["as_needed", "mask", "full"],  # full: of queries and keys, also where they are whole
        "scale": ["as_called", "explicit"],
        "x64": ["as_needed", "enabled"],
    }
    supports = {"bias_dtypes": ["same", "f32"], "dims": {"dv": "=d", **may_be_empty("b", "lq", "lk")}}
    function = staticmethod(jax.nn.dot_product_attention)
    source = "jax.nn.dot_product_attention"
    static = _STATIC

    def __init__(self, name, implementation=None, **pinned):
        super().__init__(name, **pinned)
        self.implementation = implementation

    def asked(self, call):
        refuse(call.softcap > 0, "jax.nn.dot_product_attention has no softcap")
        said = self.said(call)
        refuse(said["rank"] == "tnh" and call.q.shape[0] != 1, "without a batch there is one sample")
        layout = {"btnh": "blhd", "tnh": "lhd"}[said["rank"]]
        arguments = {name: laid(call, view, layout) for name, view in (("query", "q"), ("key", "k"), ("value", "v"))}
        arguments |= masks_of(call, said) | lengths_of(call, said)
        options = {"implementation": self.implementation}
        if said["causal"] == "flag" and call.causal and starts_top_left(call):
            options["is_causal"] = True
        if said["window"] != "mask" and windowed(call) and starts_top_left(call):
            options["local_window_size"] = window(call, said)
        if not call.scale_is_default or said["scale"] == "explicit":
            options["scale"] = call.scale
        return Asked(arguments, options, layout)


class Residual(Sdpa):
    """The same with return_residual, the log-sum-exp."""

    dtypes = ("f32", "f64")
    supports = Sdpa.supports | {"lse": True}

    def attention(self, call):
        if call.lse is not None and call.lse.dtype.name != STORED[call.dtype]:
            raise Unsupported("the residual has the type of the key, and this log-sum-exp has another")
        asked = self.asked(call)
        out, residual = self.ask(asked, self.said(call))
        self.leave(call.out, out, asked.layout, call.dtype)
        if call.lse is not None:
            residual = unlaid(self.array(residual)[..., None], asked.layout)[..., 0]
            call.lse[...] = np.where(open_keys(call).any(-1), residual, -np.inf)

    def asked(self, call):
        asked = super().asked(call)
        return asked._replace(options=asked.options | {"return_residual": True})


def tensor(argument):
    return jnp.asarray(numbers(argument.array, argument.dtype))


def wide(asked, said):
    return said.get("x64") == "enabled" or any(argument.dtype == "f64" for argument in asked.arguments.values())


def masks_of(call, said):
    """mask and bias: what the flags and the lengths do not say."""
    top_left = starts_top_left(call)
    keep = keep_of(call, None if call.keep is None else narrowed(call.keep), lengths=said["lengths"] == "mask",
                   causal=said["causal"] == "mask" or not top_left, window=said["window"] == "mask" or not top_left)
    bias, dtype = (None, call.dtype) if call.bias is None else (narrowed(call.bias), call.bias_dtype)
    if keep is not None and said["mask_type"] == "bias":
        keep, bias = None, added_to(call, keep, dtype, bias)
    masks = {}
    if keep is not None:
        masks["mask"] = given(shaped(keep, call, said["mask"]), "bool", call)
    if bias is not None:
        masks["bias"] = given(shaped(bias, call, said["mask"]), dtype, call)
    return masks


def lengths_of(call, said):
    b, lq, lk = call.q.shape[0], call.q.shape[2], call.k.shape[2]
    lengths = {}
    if said["lengths"] == "full":
        lengths["query_seq_lengths"] = given(np.full(b, lq, np.int32), "i32", call)
    if said["lengths"] == "full" or said["lengths"] == "as_needed" and call.kv_lengths is not None:
        keys = np.full(b, lk, np.int32) if call.kv_lengths is None else call.kv_lengths
        lengths["key_value_seq_lengths"] = given(keys, "i32", call)
    return lengths


def window(call, said):
    """local_window_size: as wide as the problem says, and as all keys where that has no end."""
    widest = max(call.q.shape[2], call.k.shape[2])
    left, right = (widest if side < 0 else side for side in (call.window_left, call.window_right))
    return left if left == right and said["window"] == "int" else (left, right)
