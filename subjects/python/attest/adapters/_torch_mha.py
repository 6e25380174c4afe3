"""torch.nn.MultiheadAttention on the CPU, its projections set to pass the problem's heads through unchanged.

Document: https://docs.pytorch.org/docs/2.15/generated/torch.nn.MultiheadAttention.html, the same text as the class's docstring.
How it is read:
- attention is that of "Attention Is All You Need": scale 1/sqrt(head);
- the fast path: autograd is off, eval() called, and the rest of its list holds here;
- add_bias_kv is one more key, the same in all samples, which no mask speaks of; add_zero_attn one of zeros: the first of a problem
  that has such a key, which goes behind the others;
- is_causal is given wherever attn_mask is the causal mask. Without attn_mask it "applies a causal mask as attention mask", which
  the slow path refuses.
Nothing is said on empty rows, precision, determinism, NaN: nothing is claimed.

The projections are rows of the identity, in which every product and sum is exact, so what goes in is what attention gets.
NaN and infinities spread over a row in them: they are asked where the row means no more than that, and where one head or column
may rightly give one, the others of that query cannot be told. On the fast path one tensor must be query, key and value: it holds
q, k and v side by side, and heads four times as wide pick theirs out; the scale of such a head is half that of the problem,
which doubling q undoes exactly.
"""

from collections import OrderedDict

import torch

from attest import Refused, Unsupported

from . import _torch_script as script
from ._forms import drawn, may_be_empty, refuse
from ._masks import windowed
from ._quotes import quotes
from ._torch_call import (
    ADDED, NO_PROMISE, TYPES, Subject, ask, describe, diagonal_as_keep, lengths_as_keep, narrowed, open_keys, tensor,
)

_MOST_WEIGHTS = 4 * 2048**2  # weights of a layer's four square projections
_KEPT_LAYERS, _KEPT_WIDTH = 32, 1024  # layers, and the largest embed_dim
_layers = OrderedDict()  # least recently used first


DOCUMENTS = quotes(r"""
signature of torch.nn.MultiheadAttention.forward | ! MultiheadAttention has no softcap ! MultiheadAttention has no scale but the default | (self, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
source of torch.nn.MultiheadAttention | ! nested tensors are of the fast path, and take no mask | MultiheadAttention does not support NestedTensor outside of its fast path.
source of torch.nn.functional.multi_head_attention_forward | ! on the slow path is_causal is a hint on attn_mask, which has to be there | Need attn_mask if specifying the is_causal hint.
docstring of torch.nn.MultiheadAttention
    - | kdim and vdim are equal to embed_dim
    - | training is disabled (using .eval())
    attention ! a NaN or an infinity spreads over its row in the projections ! projections of more than {_MOST_WEIGHTS} numbers are not made | \text{head}_i = \text{Attention}(QW_i^Q, KW_i^K, VW_i^V)
    attention ! a NaN that one column may have spreads over all of them in the output projection | \text{Concat}(\text{head}_1,\dots,\text{head}_h)W^O
    form.path=fast | self attention is being computed (i.e., query, key, and value are the same tensor).
    form.path=fast | inputs are batched (3D) with batch_first==True
    form.projection_bias | If specified, adds bias to input / output projection layers.
    form.last_key=bias_kv | If specified, adds bias to the key and value sequences at dim=0.
    form.last_key=zero_attn | If specified, adds a new batch of zeros to the key and value sequences at dim=1.
    form.input ! nested tensors are of the fast path, and take no mask | can be passed for query/key/value to represent padding more efficiently than using a padding mask.
    form.input ! nested tensors are of the fast path, and take no mask | if a NestedTensor <https://pytorch.org/docs/stable/nested.html>_ is passed, neither key_padding_mask nor attn_mask is passed
    ! MultiheadAttention has one num_heads and one head dimension | each head will have dimension ``embed_dim // num_heads``
docstring of torch.nn.MultiheadAttention.forward
    bias form.mask_type=float mask_added ! MultiheadAttention takes a mask of the query's type | For a float mask, the mask values will be added to the attention weight.
    keep window causal form.mask=mask form.mask_type=bool | For a binary mask, a True value indicates that the corresponding position is not allowed to attend.
    bias keep form.mask=mask | Must be of shape (L, S) or (N\cdot\text{num\_heads}, L, S)
    kv_lengths form.mask=padding | For a binary mask, a True value indicates that the corresponding key value will be ignored for the purpose of attention.
    causal form.causal=hint | is_causal provides a hint that attn_mask is the causal mask.
    form.weights | Set need_weights=False to use the optimized scaled_dot_product_attention and achieve the best performance for MHA.
    form.weights=per_head | Otherwise, attn_weights are provided separately per head.
    form.batch ! without a batch there is one sample | (L, E_q) for unbatched input, (L, N, E_q) when batch_first=False or (N, L, E_q) when batch_first=True
    form.mask=both | If both attn_mask and key_padding_mask are supplied, their types should match.
    form.causal=alone | If specified, applies a causal mask as attention mask.
""")
# Self-attention without any mask.
_UNMASKED = "!causal && keep==none && bias==none && lengths==none && window_left<0 && window_right<0 && lq==lk && b>0 && lq>0 && hq%2==0"
# The keys of the problem that masks speak of, by the form last_key.
_SPOKEN_OF = {"given": slice(None), "bias_kv": slice(-1), "zero_attn": slice(1, None)}


class MultiheadAttention(Subject):
    documents = DOCUMENTS
    forms = {
        "path": ["fast", "slow"],  # the fast path wherever the problem can say it, else, as on the slow one, three tensors
        "weights": ["none", "averaged", "per_head"],  # need_weights=False; True, the default; and average_attn_weights=False
        "batch": ["first", "second", "none"],  # batch_first, and tensors without a batch
        "mask": ["padding", "mask", "both"],  # a mask of keys alone as key_padding_mask, or as attn_mask; both in every call
        "mask_type": ["bool", "float"],  # the type of masks without a bias
        "projection_bias": ["zeros", "none"],
        "last_key": ["given", "bias_kv", drawn("zero_attn", "null_key && lk>1")],  # or by add_bias_kv, or add_zero_attn, where that can say it
        "causal": ["hint", drawn("alone", "causal && keep==none && bias==none && lengths==none", path="fast")],  # is_causal beside attn_mask, or in its place
        "input": ["plain", *(drawn(layout, _UNMASKED, path="fast", batch="first", mask="padding", last_key="given")
                             for layout in ("strided", "jagged"))],  # or a nested tensor of that layout
    }

    def describe(self):
        return describe(self, {"gqa": False, "scale": "default", "dims": {"dv": "=d", **may_be_empty("b", "lq", "lk")},
                               "null_key": True}, NO_PROMISE | ADDED)

    def answer(self, call, _place):
        said = self.say(call)
        try:
            y = ask(lambda: said.run(layer(said)))
        except Refused as refusal:
            if "Need attn_mask if specifying the is_causal hint" not in str(refusal):
                raise
            raise Unsupported("on the slow path is_causal is a hint on attn_mask, which has to be there") from None
        y = heads_outside(y[None] if said.batch == "none" else y.transpose(0, 1) if said.batch == "second" else y, call.out.shape)
        nonfinite = ~y.isfinite().all(3).all(1)  # [B, Lq]
        if said.heads * said.d > 1 and said.finite and nonfinite.any() and not (nonfinite & ~may_be_nonfinite(call)).any():
            raise Unsupported("a NaN that one column may have spreads over all of them in the output projection")
        return y, None

    def say(self, call):
        refuse(call.softcap > 0, "MultiheadAttention has no softcap")
        refuse(not call.scale_is_default, "MultiheadAttention has no scale but the default")
        if call.k.shape[1] != call.q.shape[1] or call.v.shape[3] != call.q.shape[3]:
            raise Unsupported("MultiheadAttention has one num_heads and one head dimension")
        refuse(call.bias is not None and call.bias_dtype != call.dtype, "MultiheadAttention takes a mask of the query's type")
        q, k, v = (tensor(x, call.dtype) for x in (call.q, call.k, call.v))
        if not all(map(survives_projection, (q, k, v), (q.shape[1], q.shape[1], q.shape[1] * q.shape[3]))):
            raise Unsupported("a NaN or an infinity spreads over its row in the projections")
        form = self.said(call)
        refuse(form["batch"] == "none" and call.q.shape[0] != 1, "without a batch there is one sample")
        if not said_by_the_layer(call, k, v, form["last_key"]):
            form = form | {"last_key": "given"}
        said = self.in_one(call, q, k, v, form) if form["path"] == "fast" and form["last_key"] == "given" else None
        if form["input"] != "plain" and (said is None or 0 in said.inputs[0].shape or form["batch"] != "first"
                                         or said.options.keys() & {"attn_mask", "key_padding_mask"}):
            raise Unsupported("nested tensors are of the fast path, and take no mask")
        return said or self.in_three(call, q, k, v, form)

    def in_one(self, call, q, k, v, form):
        """Query, key and value as one tensor, or None where the problem cannot be said so."""
        b, heads, length, d = q.shape
        width = 4 * heads * d
        if k.shape[2] != length or heads % 2 or call.bias is not None or 4 * width**2 > _MOST_WEIGHTS:
            return None
        if (q.abs() > torch.finfo(q.dtype).max / 2).any():
            return None
        x = torch.cat([*map(heads_inside, (q, k, v)), torch.zeros(b, length, heads * d, dtype=q.dtype)], 2)
        x = batched(x, form["batch"])
        return Said((x, x, x), width, heads, d, self.options(call, form), form, fast=True)

    def in_three(self, call, q, k, v, form):
        b, heads, _, d = q.shape
        refuse(4 * (heads * d)**2 > _MOST_WEIGHTS, f"projections of more than {_MOST_WEIGHTS} numbers are not made")
        keys = _SPOKEN_OF[form["last_key"]]
        inputs = tuple(batched(heads_inside(t), form["batch"]) for t in (q, k[:, :, keys], v[:, :, keys]))
        last = (k[0, :, -1].ravel(), v[0, :, -1].ravel()) if form["last_key"] == "bias_kv" else None
        return Said(inputs, heads * d, heads, d, self.options(call, form), form, False, last)

    def options(self, call, form):
        keys = _SPOKEN_OF[form["last_key"]]
        options = {"none": {"need_weights": False}, "averaged": {}, "per_head": {"average_attn_weights": False}}[form["weights"]]
        padding, mask = masks(call, form)
        if padding is not None:
            options["key_padding_mask"] = (padding[0] if form["batch"] == "none" else padding)[..., keys]
        if mask is not None:
            options["attn_mask"] = mask[..., keys]
        if mask is not None and is_the_causal_mask(options["attn_mask"]):
            options["is_causal"] = True
            if form["causal"] == "alone":
                del options["attn_mask"]
        return options

    def script(self, call, beside=None):
        return script.mha(self.say(call), call)


class Said:
    """One call of a layer: its three inputs, what the layer is, and the options."""

    def __init__(self, inputs, width, heads, d, options, form, fast, bias_kv=None):
        self.inputs, self.options, self.bias_kv = inputs, options, bias_kv
        self.width, self.heads, self.d, self.fast = width, heads, d, fast
        self.batch, self.biased, self.zero_attn = form["batch"], form["projection_bias"] == "zeros", form["last_key"] == "zero_attn"
        self.dtype, self.nested = inputs[0].dtype, None if form["input"] == "plain" else form["input"]
        self.finite = all(t.isfinite().all() for t in inputs)

    def run(self, layer):
        if self.nested is None:
            return layer(*self.inputs, **self.options)[0]
        x = torch.nested.as_nested_tensor(list(self.inputs[0]), layout=getattr(torch, self.nested))
        return torch.stack(layer(x, x, x, **self.options)[0].unbind())


def layer(said):
    """The layer whose projections pass heads through; a few that are not too wide are kept."""
    if said.width > _KEPT_WIDTH:
        return filled(new_layer(said), said)
    key = (said.width, said.heads, said.d, said.fast, said.dtype, said.batch == "second", said.biased, said.bias_kv is None,
           said.zero_attn)
    if key not in _layers:
        _layers[key] = new_layer(said)
        if len(_layers) > _KEPT_LAYERS:
            _layers.popitem(last=False)
    _layers.move_to_end(key)
    return filled(_layers[key], said)


def filled(layer, said):
    if said.bias_kv is not None:
        layer.bias_k.copy_(said.bias_kv[0])
        layer.bias_v.copy_(said.bias_kv[1])
    return layer


def new_layer(said):
    made = torch.nn.MultiheadAttention(
        said.width, said.heads, bias=said.biased, add_bias_kv=said.bias_kv is not None, add_zero_attn=said.zero_attn,
        batch_first=said.batch != "second", dtype=said.dtype).eval()
    for weight, chosen in zip((*made.in_proj_weight.chunk(3), made.out_proj.weight), projections(said)):
        weight.copy_(chosen)
    if said.biased:
        made.in_proj_bias.zero_()
        made.out_proj.bias.zero_()
    return made


def projections(said):
    """The weights of query, key, value and output."""
    eye = torch.eye(said.width, dtype=said.dtype)
    if not said.fast:
        return eye, eye, eye, eye
    heads, d = said.heads, said.d
    # Row of each head's first d features; feature of x where q begins.
    rows = (torch.arange(heads)[:, None] * 4 * d + torch.arange(d)).ravel()
    features = torch.arange(heads * d)
    weights = torch.zeros(4, said.width, said.width, dtype=said.dtype)
    for part in range(3):
        weights[part, rows, features + part * heads * d] = 2 if part == 0 else 1
    weights[3, features, rows] = 1
    return weights


def survives_projection(t, spread):
    """Whether the numbers of t [B, H, L, D] that are not finite come to the same when they fill the row, as they do in a product
    with the projection: all finite; or NaN alone, where whoever meets one of the row's `spread` numbers meets them all."""
    return bool(t.isfinite().all()) or (spread == 1 and not t.isinf().any())


def said_by_the_layer(call, k, v, last_key):
    """Whether the layer can add that key: one among others, open to every row, without a bias, and, by bias_kv (the last one), the
    same in all samples, by zero_attn (the first one) of zeros."""
    if last_key == "given" or len(k) == 0 or k.shape[2] < 2:
        return False
    at = -1 if last_key == "bias_kv" else 0
    if not open_keys(call)[..., at].all() or call.bias is not None and tensor(call.bias, call.dtype)[..., at].any():
        return False
    rows = [t[:, :, at] for t in (k, v)]
    return all(torch.equal(t, t[:1].expand_as(t)) if last_key == "bias_kv" else not t.any() for t in rows)


def is_the_causal_mask(mask):
    """Whether attn_mask, of two dimensions, leaves out the later keys and is nothing else."""
    later = torch.ones(mask.shape[-2:], dtype=torch.bool).triu(1)
    return torch.equal(mask, later if mask.dtype == torch.bool else torch.zeros(later.shape, dtype=mask.dtype).masked_fill(later, float("-inf")))


def batched(t, form):
    """(B, L, E) as the layer is to get it."""
    return t[0] if form == "none" else t.transpose(0, 1) if form == "second" else t


def masks(call, form):
    """(key_padding_mask, attn_mask), True where a key is left out; or, where there is a bias, both added.

    Key lengths, and a keep mask that is the same for all heads and queries, are a key_padding_mask, unless the form says "mask";
    everything else is an attn_mask, of two dimensions if it is the same for all samples and heads. "both": as either, and so is
    no mask at all.
    """
    keep = None if call.keep is None else narrowed(tensor(call.keep, "bool"))
    lengths = None if call.kv_lengths is None else lengths_as_keep(call)
    moving = diagonal_as_keep(call) if call.causal or windowed(call) else None
    if keep is not None and keep.shape[1] == keep.shape[2] == 1:
        padding, keep = (keep if lengths is None else keep & lengths), None
    else:
        padding = lengths
    attend = moving if keep is None else keep if moving is None else keep & moving
    if form["mask"] == "both" and padding is None:
        padding = torch.ones(1, 1, 1, call.k.shape[2], dtype=torch.bool)
    if form["mask"] != "padding" and padding is not None:
        attend = padding if attend is None else attend & padding
        padding = padding if form["mask"] == "both" else None

    b, heads, lq, lk = *call.q.shape[:3], call.k.shape[2]
    if padding is not None:
        padding = ~padding.expand(b, 1, 1, lk)[:, 0, 0]
    mask = None if attend is None else ~attend
    if call.bias is not None or form["mask_type"] == "float":
        bias = None if call.bias is None else narrowed(tensor(call.bias, call.dtype), (0, 1))
        mask = None if mask is None and bias is None else added(mask, bias, call.dtype)
        padding = None if padding is None else added(padding, None, call.dtype)
    if mask is None:
        return padding, None
    if mask.shape[0] == mask.shape[1] == 1:
        return padding, mask[0, 0].expand(lq, lk)
    return padding, mask.expand(b, heads, lq, lk).reshape(b * heads, lq, lk)


def may_be_nonfinite(call):
    """bool, broadcastable to [B, Lq]: whether a head of that query may rightly have a NaN or an infinity, since numbers may
    overflow or no key is left: closed, or by a bias so low that every score may be -inf."""
    q, k, v = (tensor(x, call.dtype).double().abs().max().item() for x in (call.q, call.k, call.v))
    largest = torch.finfo(TYPES[call.dtype]).max / 16
    product = q * k * call.q.shape[3]
    may = ~open_keys(call, least=product - largest).any(-1)
    if call.bias is not None:
        bias = narrowed(tensor(call.bias, call.dtype)).double()
        may = may | (open_keys(call) & ~(bias <= largest - product)).any(-1)
    return may.any(1) | (not max(product, v * call.k.shape[2]) <= largest)


def added(left_out, bias, dtype):
    """`bias`, or zeros, with -inf where `left_out`."""
    if left_out is None:
        return bias
    bias = torch.zeros((), dtype=TYPES[dtype]) if bias is None else bias
    return torch.where(left_out, torch.tensor(float("-inf"), dtype=TYPES[dtype]), bias)


def heads_inside(t):
    """[B, H, L, D] as (B, L, H*D)."""
    b, heads, length, d = t.shape
    return t.transpose(1, 2).reshape(b, length, heads * d)


def heads_outside(y, shape):
    """The first H*D features of (B, L, width) as [B, H, L, D]."""
    b, heads, length, d = shape
    return y[:, :, :heads * d].reshape(b, length, heads, d).transpose(1, 2)
