"""Calls as the operators of ONNX and of ONNX Runtime need them: checks, attributes, layouts."""

import numpy as np

from ._forms import Formed, described, refuse
from ._masks import TOP_LEFT, windowed
from ._quotes import refusals

TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
DEFAULT_THREADS = 2  # where the caller leaves it open: the smallest number that takes the threaded path

# The beginning of a document's name, and that of its title, with the version in which its sentences were read.
_TITLES = {
    "schema of ai.onnx ": "ONNX 1.23, ",
    "schema of com.microsoft ": "onnxruntime 1.31, com.microsoft.",
    "docstring of onnx.": "ONNX 1.23, onnx.",
    "page ": "onnxruntime.ai, ",
}


def cited(document, sentence):
    start = next(start for start in _TITLES if document.startswith(start))
    return f'{_TITLES[start]}{document.removeprefix(start)}: "{sentence}"'


# The forms of every model that a session runs.
SESSIONS = {
    "build": ["dynamic", "static"],  # static: shapes pinned in the model, a session per shape
    "constants": ["none", "mask", "kv"],  # part of the model instead of inputs
    "optimisation": ["all", "none"],  # the session's
}


def session(said, **named):
    """The effect of those forms on a graph whose inputs are known by these names."""
    constants = {"none": (), **named}[said["constants"]]
    return {"static": said["build"] == "static", "constants": constants, "optimisation": said["optimisation"]}


REFUSED = refusals("""
kernels of ai.onnx Attention | ! {op} has no {call.dtype} kernel in this build | [tensor(float), tensor(float16)]
kernels of com.microsoft MultiHeadAttention | ! {op} has no {call.dtype} kernel in this build | [tensor(float)]
kernels of com.microsoft GroupQueryAttention | ! {op} has no {call.dtype} kernel in this build | [tensor(float), tensor(float16)]
kernels of com.microsoft Attention | ! {op} has no {call.dtype} kernel in this build | [tensor(float)]
kernels of com.microsoft DecoderMaskedMultiHeadAttention | ! {op} has no {call.dtype} kernel in this build | [tensor(float)]
kernels of com.microsoft SparseAttention | ! {op} has no {call.dtype} kernel in this build | [tensor(float), tensor(float16)]
kernels of com.microsoft QAttention T3 | ! {op} has no {call.dtype} kernel in this build | [tensor(float)]
kernels of ai.onnx Softmax | ! {op} has no {call.dtype} kernel in this build | [tensor(double), tensor(float)]
attributes of ai.onnx Attention-24
    ! {op} has no sliding window in this version | [is_causal INT, kv_num_heads INT, q_num_heads INT, qk_matmul_output_mode INT, scale FLOAT, softcap FLOAT, softmax_precision INT]
    ! this {name} is no 32-bit float, which is what the attribute holds | scale FLOAT, softcap FLOAT,
attributes of com.microsoft MultiHeadAttention-1
    ! {op} has no sliding window in this version | [mask_filter_value FLOAT, num_heads INT, scale FLOAT, unidirectional INT]
    ! this {name} is no 32-bit float, which is what the attribute holds | scale FLOAT,
outputs of ai.onnx Attention-24 | ! {op} does not return the log-sum-exp | [Y, present_key, present_value, qk_matmul_output]
outputs of com.microsoft MultiHeadAttention-1 | ! {op} does not return the log-sum-exp | [output, present_key, present_value, qk]
outputs of com.microsoft GroupQueryAttention-1 | ! {op} does not return the log-sum-exp | [output, present_key, present_value, output_qk]
outputs of com.microsoft Attention-1 | ! {op} does not return the log-sum-exp | [output, present]
outputs of com.microsoft DecoderMaskedMultiHeadAttention-1 | ! {op} does not return the log-sum-exp | [output, present_key, present_value, qk]
outputs of com.microsoft SparseAttention-1 | ! {op} does not return the log-sum-exp | [output, present_key, present_value]
outputs of com.microsoft QAttention-1 | ! {op} does not return the log-sum-exp | [output, present]
schema of ai.onnx Softmax-13 | ! {op} does not return the log-sum-exp | contains the Softmax values of the corresponding input.
schema of ai.onnx Attention-24
    ! {op} takes a bias of the query's type only | a float mask of the same type as query, key, value that is added to the attention score
    ! a past moves the diagonal off the top left ! more queries than keys under a bottom-right diagonal: a past has no negative length | `offset = past_sequence_length` when `past_key` is provided
inputs of com.microsoft MultiHeadAttention-1 | ! {op} takes a bias of the query's type only | attention_bias T,
inputs of com.microsoft GroupQueryAttention-1 | ! {op} takes a bias of the query's type only | attention_bias T,
inputs of com.microsoft Attention-1 | ! {op} takes a bias of the query's type only | attention_bias T,
inputs of com.microsoft DecoderMaskedMultiHeadAttention-1 | ! {op} takes a bias of the query's type only | attention_bias T,
inputs of ai.onnx Add-14 | ! {op} takes a bias of the query's type only | [A T, B T]
attributes of com.microsoft GroupQueryAttention-1 | ! this {name} is no 32-bit float, which is what the attribute holds | scale FLOAT, sliding_window_cache INT, smooth_softmax INT, softcap FLOAT,
attributes of com.microsoft Attention-1 | ! this {name} is no 32-bit float, which is what the attribute holds | scale FLOAT,
attributes of com.microsoft DecoderMaskedMultiHeadAttention-1 | ! this {name} is no 32-bit float, which is what the attribute holds | scale FLOAT]
schema of com.microsoft MultiHeadAttention-1
    ! a past moves the diagonal by the same length for every sample | (batch_size, num_heads, past_sequence_length, head_size)
    ! rows of the batch are pairs of beams | A buffer of shape [batch_size, beam_width, max_sequence_length]
schema of com.microsoft DecoderMaskedMultiHeadAttention-1 | ! rows of the batch are pairs of beams | A buffer of shape [batch_size, beam_width, max_output_length]
""")


def scale_attribute(call, form):
    """The attribute `scale`, or nothing where the operator's default says it; "explicit" says the default, too."""
    if call.scale_is_default and form == "as_called":
        return {}
    return {"scale": attribute("scale", call.scale, call.dtype)}


def check(call, op, dtypes, window=False):
    """Raises Unsupported for what no operator here offers."""
    refuse(call.dtype not in dtypes, f"{op} has no {call.dtype} kernel in this build")
    refuse(windowed(call) and not window, f"{op} has no sliding window in this version")
    refuse(call.lse is not None, f"{op} does not return the log-sum-exp")
    refuse(call.bias is not None and call.bias_dtype != call.dtype, f"{op} takes a bias of the query's type only")


def attribute(name, value, dtype):
    """`value` as the 32-bit float that an ONNX attribute holds; Unsupported where that makes it another problem."""
    with np.errstate(over="ignore", under="ignore"):
        stored = float(np.float32(value))
    allowed = 0.0 if dtype == "f64" else 2.0**-24 * abs(value)  # one rounding is part of every narrower policy
    refuse(not abs(stored - value) <= allowed, f"this {name} is no 32-bit float, which is what the attribute holds")
    return stored


def token_mask(keep, shape, queries=False):
    """An int32 mask, 1 where a key takes part, of a keep mask that is the same for all heads: (B, Lk) where it is the same for
    all queries too, unless `queries`, else (B, Lq, Lk). `shape`: [B, H, Lq, Lk]."""
    b, _, lq, lk = shape
    if keep.shape[2] == 1 and not queries:
        return np.broadcast_to(keep[:, 0, 0], (b, lk)).astype(np.int32)
    return np.broadcast_to(keep[:, 0], (b, lq, lk)).astype(np.int32)


def heads_inside(array):
    """[B, H, L, D] in the three-dimensional layout (B, L, H*D)."""
    b, h, length, d = array.shape
    return array.transpose(0, 2, 1, 3).reshape(b, length, h * d)


def heads_outside(array, shape):
    """A result in the layout (B, L, H*Dv), or in `shape` [B, H, L, Dv] already, as [B, H, L, Dv]."""
    b, h, length, dv = shape
    return array if array.ndim == 4 else array.reshape(b, length, h, dv).transpose(0, 2, 1, 3)


UNUSED = 1.0  # the number in a buffer where no token is
PASTS = ("needed", "half", "empty")
# Problems that a past can say, the same for all samples; one of no tokens.
BEHIND = "lk>=lq && (lengths==none || lengths==full)"
MOVED, UNMOVED = f"(!causal || align==bottom_right && {BEHIND})", f"(!causal || align==top_left || {BEHIND})"


def past_length(call, wanted):
    """The number of keys that go in as past, or None for a node without a past.

    A past of P keys puts query i at key P + i, for every sample alike: the way to say a bottom-right diagonal with
    more keys than queries. `wanted`, where no diagonal decides: no past, half of the keys, none of them, "all", or, "shared", all
    but as many as there are queries.
    """
    lq, lk = call.q.shape[2], call.k.shape[2]
    always = wanted != "needed"
    if not call.causal:
        return {"needed": None, "half": lk // 2, "all": lk, "empty": 0, "shared": max(lk - lq, 0)}[wanted]
    if call.align == TOP_LEFT:
        if wanted == "empty":
            return 0
        refuse(always, "a past moves the diagonal off the top left")
        return None
    refuse(call.kv_lengths is not None and np.any(call.kv_lengths != lk), "a past moves the diagonal by the same length for every sample")
    refuse(lk < lq, "more queries than keys under a bottom-right diagonal: a past has no negative length")
    return lk - lq if lk > lq or always else None


def split(array, past):
    """(past part or None, new part) of keys or values [B, H, L, D]."""
    return (None, array) if past is None else (array[:, :, :past], array[:, :, past:])


def buffer(past, tokens):
    """[B, H, max_sequence_length, D], half as long again as `tokens` need, that begins with these keys or values."""
    b, heads, length, d = past.shape
    made = np.full((b, heads, tokens + tokens // 2 + 1, d), UNUSED, past.dtype)
    made[:, :, :length] = past
    return made


def crossed(past_key, past_value, tokens):
    """(past_key, past_value, cache_indirection) whose rows are pairs of beams: every other token of a beam lies in the row of the
    other beam. `tokens`: as of buffer()."""
    rows = len(past_key)
    refuse(rows % 2, "rows of the batch are pairs of beams")
    here = np.arange(past_key.shape[2]) % 2 == 0
    other = np.arange(rows) ^ 1
    crossing = [np.where(here[:, None], past, past[other]) for past in (past_key, past_value)]
    beams = np.arange(tokens + tokens // 2 + 1) % 2 ^ np.arange(2)[:, None]
    return *crossing, np.broadcast_to(beams, (rows // 2, *beams.shape)).astype(np.int32)


def rolled(array, rows):
    """[B, H, L, ...] with the rows of each sample moved by as many as `rows` says, around the end."""
    return np.stack([np.roll(sample, n, 1) for sample, n in zip(array, rows)])


class Operator(Formed):
    """A subject that says each call as one model: a subclass has node(call), which raises Unsupported. `engine`, a module, runs
    it: run(node) -> array, source(node, call) -> lines of Python, versions()."""

    def __init__(self, name, engine, **pinned):
        super().__init__(name, **pinned)
        self.engine = engine
        self.version = engine.versions()

    def described(self, dtypes, supports, contract):
        return described("attention", dtypes, {"window": False, "forms": self.offered(), **supports}, contract,
                         documents=self.quoted(cited), **self.times)

    def attention(self, call):
        node = self.node(call)
        got = self.engine.run(node)
        out = node.rest.out(got, call.v) if node.rest else heads_outside(got, call.out.shape)
        call.out[...] = rolled(out, node.ahead) if node.ahead else out

    def script(self, call, beside=None):
        return self.engine.source(self.node(call), call)
