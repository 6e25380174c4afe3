"""The attention block of torch.nn.TransformerEncoderLayer on its fast path (torch._transformer_encoder_layer_fwd), on the CPU.

Document: the docstrings of the class and of its forward, and that of torch.nn.Transformer.forward, to which they refer, in
torch 2.15. How it is read:
- with norm_first a layer is z = x + block(norm1(x)), out = z + feed_forward(norm2(z)), as the paper that it cites has it;
- x goes in times 2^-K, as features x, -x in pairs and zeros, whose mean is 0; beside an epsilon of 4^-R the variance is nothing, so
  that norm1 under a weight of 2^(K-R) gives x itself. Whether it does so exactly is computed by norm1 alone; else the call is not
  asked;
- x times 2^-K is less than half an ulp of each result that is not 0, so that the sum z is the block's result; one that comes out as x
  was 0. Smaller results, which x may have moved, are not asked. The feed-forward part has weights of 0;
- heads are four times as wide as the problem's, and the scale half of it, which doubling the queries' projection undoes exactly.
Nothing is said on empty rows, precision, determinism, NaN: nothing is claimed, as of torch:block.
"""

import numpy as np
import torch

from attest import Unsupported

from ._forms import BLOCK_WAYS, described, refuse
from . import _torch_script as script
from ._mha_call import as_attention
from ._quotes import citing, quotes, told
from ._torch_call import ADDED, HOST, NO_PROMISE, RELEASE, TYPES, ask, tensor, use_threads, version
from ._torch_mha import is_the_causal_mask, masks

DOCUMENTS = quotes("""
docstring of torch.nn.TransformerEncoderLayer
    mha | TransformerEncoderLayer is made up of self-attn and feedforward network.
    ! norm1 does not give these tokens back ! numbers this large may overflow in a norm ! the residual connection adds x, which hides numbers this small | if True, layer norm is done prior to attention and feedforward operations, respectively.
docstring of torch.nn.Transformer.forward
    bias mask_added | If a FloatTensor is provided, it will be added to the attention weight.
    keep | If a BoolTensor is provided, positions with True are not allowed to attend
    kv_lengths | the positions with the value of True will be ignored while the position with the value of False will be unchanged.
docstring of torch.nn.TransformerEncoderLayer.forward | causal | If specified, applies a causal mask as src mask.
""")

DOWN = {"f32": (50, 20), "bf16": (50, 20), "f64": (300, 120)}  # K and R above
_MOST = 2.0**16  # of x, weights and biases
_KEPT_LAYERS = 32
_layers = {}


class EncoderBlock:
    documents = DOCUMENTS

    def __init__(self, name, causal="hint"):
        """`causal`: is_causal beside src_mask ("hint"), or in its place ("alone")."""
        self.name, self.version, self.causal = f"torch:{name}", version(), causal

    def describe(self):
        supports = {"dims": {"e": [2, 2, 1], "heads": [2, 2, 1], "head_dim": "=e/heads"}}
        if self.causal == "alone":  # beside another mask there is a src_mask
            supports |= {"bias": False, "keep": False, "kv_lengths": False, "align": ["top_left"]}
        return described("mha", DOWN, supports, NO_PROMISE | ADDED | BLOCK_WAYS, documents=told(self.documents, citing(RELEASE)))

    def mha(self, call):
        use_threads(call)
        if not all(moderate(getattr(call, name), call.dtype) for name in ("x", *_WEIGHTS, *_BIASES)):
            raise Unsupported("numbers this large may overflow in a norm")
        k, r = DOWN[call.dtype]
        given = {name: None if getattr(call, name) is None else tensor(getattr(call, name), call.dtype)
                 for name in ("x", *_WEIGHTS, *_BIASES)}
        torch.backends.mha.set_fastpath_enabled(True)
        made = layer(call.x.shape[2], call.heads, TYPES[call.dtype])
        fill(made, given, call.heads, 2.0 ** (k - r), 4.0**-r)
        x = paired(given["x"] * 2.0**-k)
        refuse(not torch.equal(made.norm1(x), paired(given["x"])), "norm1 does not give these tokens back")
        y = ask(lambda: made(x, **options(call, self.causal)))[..., :2 * call.x.shape[2]:2]
        x = x[..., :2 * call.x.shape[2]:2]
        clear = y.abs() >= x.abs() * 2.0 ** (4 - np.log2(torch.finfo(y.dtype).eps))
        refuse(not bool((clear | (y == x) | y.isnan()).all()), "the residual connection adds x, which hides numbers this small")
        out, _ = HOST.leave(torch.where((y == x) & (x != 0), torch.zeros_like(y), y))
        return HOST.end([(out, call.out)])

    def script(self, call, beside=None):
        return script.encoder_block([layer, fill, paired], options(call, self.causal), DOWN[call.dtype], call)


_WEIGHTS, _BIASES = ("w_q", "w_k", "w_v", "w_out"), ("b_q", "b_k", "b_v", "b_out")


def moderate(array, dtype, least=0.0):
    """Whether each number is 0 or of a size from `least` to _MOST."""
    if array is None:
        return True
    size = tensor(array, dtype).double().abs()
    return bool((size <= _MOST).all() and ((size >= least) | (size == 0)).all())


def options(call, causal):
    padding, mask = masks(as_attention(call), {"mask": "padding", "mask_type": "bool"})
    made = {} if padding is None else {"src_key_padding_mask": padding}
    if mask is not None:
        made["src_mask"] = mask
        if is_the_causal_mask(mask):
            made["is_causal"] = True
            if causal == "alone":
                del made["src_mask"]
    return made


def layer(width, heads, dtype):
    """A layer with features of its own beside those of the width, in norm_first, whose feed-forward part gives 0."""
    made = torch.nn.TransformerEncoderLayer(4 * width, heads, 1, batch_first=True, norm_first=True, dtype=dtype).eval()
    for parameter in (*made.self_attn.parameters(), *made.linear1.parameters(), *made.linear2.parameters()):
        parameter.zero_()
    return made


def fill(layer, given, heads, weight, epsilon):
    """The block's weights and biases as those of a layer that gets paired() tokens; norm1 has this weight, both norms this epsilon."""
    width = given["x"].shape[2]
    d = width // heads
    rows = (torch.arange(heads)[:, None] * 4 * d + torch.arange(d)).ravel()  # where each head's features lie
    columns = 2 * torch.arange(width)  # where those of x and of the result lie
    attention = layer.self_attn
    for part, name in enumerate("qkv"):
        twice = 2 if name == "q" else 1
        attention.in_proj_weight[part * 4 * width + rows[:, None], columns] = given[f"w_{name}"] * twice
        attention.in_proj_bias[part * 4 * width + rows] = 0 if given[f"b_{name}"] is None else given[f"b_{name}"] * twice
    attention.out_proj.weight[columns[:, None], rows] = given["w_out"]
    attention.out_proj.bias[columns] = 0 if given["b_out"] is None else given["b_out"]
    layer.norm1.weight[:], layer.norm1.eps, layer.norm2.eps = weight, epsilon, epsilon


def paired(x):
    """Tokens of four times as many features: each one and its negative, and zeros."""
    return torch.nn.functional.pad(torch.stack([x, -x], -1).flatten(2), (0, 2 * x.shape[2]))
