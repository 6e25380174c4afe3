"""The attention block inside torch.nn.TransformerEncoder on the CPU, which makes nested tensors of padded ones on the way.

Document: the docstrings of the class and of its forward, and that of torch.nn.Transformer.forward, in torch 2.15. How it is
read:
- the last layer of two has weights of 0 in its block; the feed-forward parts of both have. So each layer is norm2(norm1(x + block(x))),
  as the paper that it cites has it, and what the last one adds is 0;
- each result is one of the first of 512 features, its negative 256 features behind it, all others are 0. So the mean is 0, wherever as many
  features are summed apart from others as a power of two: whether it was is seen in the result, whose features cancel and are 0
  likewise; else the call is not asked. Beside an epsilon of 4^R the variance is nothing, so that a norm under a weight of 2^R changes
  nothing;
- x goes in times 2^-K and meets weights times 2^K, which is exact. So x is less than half an ulp of each result that is not 0, and the
  sum is the block's result; one that comes out as x, or as 0, was 0. Smaller results, which x may have moved, are not asked;
- eight features of a problem have heads 64 times as wide here, and the scale an eighth, which the queries' projection undoes exactly;
- rows of padding: nothing is said of what they give, and on the fast path they may be 0; they are those of the slow path.
Nothing is said on empty rows, precision, determinism, NaN: nothing is claimed, as of torch:block.
"""

import numpy as np
import torch

from attest import Unsupported

from ._forms import refuse
from . import _torch_script as script
from ._mha_call import as_attention
from ._quotes import quotes
from ._torch_call import HOST, TYPES, ask, narrowed, open_keys, tensor, use_threads
from ._torch_encoder_block import _BIASES, _WEIGHTS, EncoderBlock, moderate
from ._torch_mha import is_the_causal_mask, masks

DOCUMENTS = EncoderBlock.documents | quotes("""
docstring of torch.nn.TransformerEncoder
    mha ! a row without keys is a token that others see in the next layer | TransformerEncoder is a stack of N encoder layers.
    ! a norm does not give these results back ! numbers this large may overflow in a norm ! numbers of this size may overflow in a norm, or vanish beside x ! the residual connection adds x, which hides numbers this small | This TransformerEncoder layer implements the original architecture described in the
docstring of torch.nn.TransformerEncoder.forward | causal | If specified, applies a causal mask as mask.
""")

K, R = {"f32": 50, "f64": 300}, {"f32": 40, "f64": 120}  # as above
_LEAST = 2.0**-30  # of x, weights and biases other than 0
_stacks = {}  # by heads and type, filled anew for each call


class Encoder(EncoderBlock):
    documents = DOCUMENTS

    def __init__(self, name, mask_type="bool"):
        """`mask_type`: that of src_key_padding_mask and mask; "float" has a bias of keys alone as the former."""
        super().__init__(name)
        self.mask_type = mask_type

    def describe(self):
        made = super().describe()
        made["supports"]["dims"] = {"e": [8, 8, 1], "heads": [2, 8, 2], "head_dim": "=e/heads"}
        made["contract"].pop("flush_to_zero")  # bfloat16's
        return made | {"dtypes": list(K)}

    def mha(self, call):
        use_threads(call)
        if not all(moderate(getattr(call, name), call.dtype, _LEAST) for name in ("x", *_WEIGHTS, *_BIASES)):
            raise Unsupported("numbers of this size may overflow in a norm, or vanish beside x")
        refuse(empty_rows_are_seen(open_keys(as_attention(call))), "a row without keys is a token that others see in the next layer")
        given = {name: None if getattr(call, name) is None else tensor(getattr(call, name), call.dtype)
                 for name in ("x", *_WEIGHTS, *_BIASES)}
        down, key = 2.0 ** -K[call.dtype], (call.heads, call.dtype)
        if key not in _stacks:
            _stacks[key] = stack(call.heads, TYPES[call.dtype])
        fill(_stacks[key], given, call.heads, 1 / down, 2.0 ** R[call.dtype])
        x = halves(given["x"] * down)
        y = ask(lambda: encoded(_stacks[key], x, options(call, self.mask_type)))
        refuse(not given_back(y), "a norm does not give these results back")
        x, y = x[..., :8], y[..., :8]
        refuse(bool((y.abs() > 2.0**(R[call.dtype] - 20)).any()), "numbers this large may overflow in a norm")
        clear = y.abs() >= x.abs() * 2.0 ** (4 - np.log2(torch.finfo(y.dtype).eps))
        refuse(not bool((clear | (y == x) | (y == 0) | y.isnan()).all()), "the residual connection adds x, which hides numbers this small")
        out, _ = HOST.leave(torch.where((y == x) & (x != 0), torch.zeros_like(y), y))
        return HOST.end([(out, call.out)])

    def script(self, call, beside=None):
        return script.encoder([stack, fill, halves, encoded], options(call, self.mask_type), (K[call.dtype], R[call.dtype]), call)


def empty_rows_are_seen(keys):
    """Whether a row without keys, of which nothing is said, is a key that another row sees. `keys`: open_keys()."""
    rows = keys.any(1)
    if rows.shape[1] == 1:
        return False
    empty = ~keys.any(-1).all(1)
    return bool((rows & empty[:, None, :] & ~empty[..., None]).any())


def options(call, mask_type):
    seen = as_attention(call)
    bias = None if call.bias is None else narrowed(tensor(call.bias, call.dtype))
    of_keys = bias is not None and mask_type == "float" and bias.shape[1] == bias.shape[2] == 1
    if of_keys:
        seen.bias = None
    padding, mask = masks(seen, {"mask": "padding", "mask_type": mask_type})
    if of_keys:
        bias = bias[:, 0, 0].expand(len(call.x), -1)
        padding = bias.clone() if padding is None else padding + bias
    made = {} if padding is None else {"src_key_padding_mask": padding}
    if mask is not None:
        made["mask"] = mask
        if is_the_causal_mask(mask):
            made["is_causal"] = True
    return made


def stack(heads, dtype):
    """Two layers of 512 features, whose blocks and feed-forward parts give 0."""
    layer = torch.nn.TransformerEncoderLayer(512, heads, 1, batch_first=True, dtype=dtype)
    made = torch.nn.TransformerEncoder(layer, 2).eval()  # enable_nested_tensor is the default
    for layer in made.layers:
        for part in (layer.self_attn, layer.linear1, layer.linear2):
            for parameter in part.parameters():
                parameter.zero_()
    return made


def fill(encoder, given, heads, up, weight):
    """The block's weights and biases as those of the first layer, whose tokens are halves() of x / up; all norms have this weight and its
    square as epsilon."""
    attention, columns = encoder.layers[0].self_attn, torch.arange(8)
    rows = (torch.arange(heads)[:, None] * (512 // heads) + torch.arange(8 // heads)).ravel()  # where each head's features lie
    for part, name in enumerate("qkv"):
        more = 8 if name == "q" else 1
        attention.in_proj_weight[part * 512 + rows[:, None], columns] = given[f"w_{name}"] * more * up
        attention.in_proj_bias[part * 512 + rows] = 0 if given[f"b_{name}"] is None else given[f"b_{name}"] * more
    for half, sign in (0, 1), (256, -1):
        attention.out_proj.weight[columns[:, None] + half, rows] = given["w_out"] * sign
        attention.out_proj.bias[columns + half] = 0 if given["b_out"] is None else given["b_out"] * sign
    for layer in encoder.layers:
        for norm in (layer.norm1, layer.norm2):
            norm.weight[:], norm.eps = weight, weight**2


def halves(x):
    """Tokens of 512 features: x, its negative 256 features behind it, and zeros."""
    made = x.new_zeros(*x.shape[:-1], 512)
    made[..., :8], made[..., 256:264] = x, -x
    return made


def encoded(encoder, x, options):
    """What the encoder gives on its fast path; of rows of padding, what it gives on the slow one."""
    torch.backends.mha.set_fastpath_enabled(True)
    y = encoder(x, **options)
    padding = options.get("src_key_padding_mask")
    if padding is not None:
        torch.backends.mha.set_fastpath_enabled(False)
        padding = padding if padding.dtype == torch.bool else padding == float("-inf")
        y = torch.where(padding[..., None], encoder(x, **options), y)
    return y


def given_back(y):
    """Whether norms changed nothing: the halves are opposite and all other features 0, where a row is no NaN."""
    first, second = torch.nan_to_num(y).split(256, -1)
    return torch.equal(first, -second) and not bool(first[..., 8:].any())
