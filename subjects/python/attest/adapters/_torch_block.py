"""torch.nn.MultiheadAttention on the CPU as a whole: its projections, attention and its output projection.

Document: the docstring of the class in torch 2.15, the text of
https://docs.pytorch.org/docs/2.15/generated/torch.nn.MultiheadAttention.html. How it is read:
- the formulas have no biases: `bias` "adds bias to input / output projection layers". There are both or none, so one that a
  problem lacks is of zeros;
- the fast path, torch._native_multi_head_attention: autograd is off, eval() called, and the rest of the list holds. Its
  conditions in the source are an even number of heads and a bias, too, and masks that are boolean;
- kdim and vdim: memory of a problem has one width, so that features of zeros, with weights of zeros, make it wider: exact;
- add_bias_kv is one more key behind the others, the same in all samples, which no mask speaks of: the last token of memory,
  whose projections without biases are computed here, exactly and rounded once. add_zero_attn is not asked: no token is
  projected to zeros.
Nothing is said on empty rows, precision, determinism, NaN: nothing is claimed. A projection may be rounded before its bias is
added or behind it, or not at all.
"""

import numpy as np
import torch
from torch.nn import Parameter

from . import _torch_script as script
from ._forms import BLOCK_WAYS, Formed, described, refuse
from ._mha_call import as_attention, side_by_side
from ._quotes import citing, quotes
from ._torch_call import (
    ADDED, HOST, NO_PROMISE, RELEASE, TYPES, ask, open_keys, tensor, use_threads, version,
)
from ._torch_mha import DOCUMENTS as OF_ATTENTION, batched, is_the_causal_mask, masks

DOCUMENTS = {about: OF_ATTENTION[about] for about in ("attention", "bias", "keep", "kv_lengths", "causal", "mask_added", "form.path=fast", "form.weights", "form.batch", "form.last_key=bias_kv", "form.mask_type=float", "form.causal=alone")} | quotes("""
docstring of torch.backends.mha.set_fastpath_enabled | form.path=slow | Sets whether fast path is enabled
docstring of torch.nn.MultiheadAttention.forward | form.projection=separate | where S is the source sequence length, N is the batch size, and E_k is the key embedding dimension kdim.
docstring of torch.nn.MultiheadAttention
    form.input=nested | can be passed for query/key/value to represent padding more efficiently than using a padding mask.
    ! bias_k and bias_v are the same for all samples, and no mask speaks of them | If specified, adds bias to the key and value sequences at dim=0.
""")

_ROUNDED = {"projections": ["rounded", "separate"]}  # as the key and value that are computed here
_KEPT_LAYERS = 64
_layers = {}


class Block(Formed):
    """One way of a call: `pinned` forms. Operations other than attention have none in describe, so each is a subject."""

    documents = DOCUMENTS
    forms = {
        "path": ["as_it_is", "fast", "slow"],  # fast: what can only be said there; slow: torch.backends.mha says no
        "weights": ["none", "averaged", "per_head"],  # need_weights=False; True; and average_attn_weights=False
        "batch": ["first", "second", "none"],  # batch_first, and tensors without a batch
        "projection": ["packed", "three", "separate"],  # three: query, key, value are tensors of their own; separate: kdim, vdim
        "last_key": ["given", "bias_kv"],
        "input": ["plain", "nested"],
        "mask_type": ["bool", "float"],
        "causal": ["hint", "alone"],  # is_causal beside attn_mask, or in its place
    }

    def __init__(self, name, **pinned):
        super().__init__(f"torch:{name}", **pinned)
        self.version = version()

    def offered(self):
        return {}

    def describe(self):
        fast = self.first["path"] == "fast"
        supports = {"memory": ["self", "cross"], "dims": {"head_dim": "=e/heads"}}
        if self.first["causal"] == "alone":  # beside another mask there is an attn_mask
            supports |= {"bias": False, "keep": False, "kv_lengths": False, "align": ["top_left"]}
        contract = NO_PROMISE | ADDED | BLOCK_WAYS
        if fast:
            supports |= {"memory": ["self"], "bias": False}
            supports["dims"] |= {"heads": [2, None, 2]}
        if self.first["input"] == "nested":  # "neither key_padding_mask nor attn_mask is passed"
            supports |= {"keep": False, "kv_lengths": False, "causal": False}
        if self.first["batch"] == "none":
            supports["dims"] |= {"b": [1, 1, 1]}
        if self.first["last_key"] == "bias_kv":
            supports |= {"memory": ["cross"], "in_biases": False}
            supports["dims"] |= {"m": [2, None, 1]}
            contract = contract | _ROUNDED
        return described("mha", TYPES, supports, contract, documents=self.quoted(citing(RELEASE)))

    def mha(self, call):
        use_threads(call)
        said = self.say(call)
        torch.backends.mha.set_fastpath_enabled(self.first["path"] != "slow")
        y = ask(lambda: said.run(layer(said)))
        out, dtype = HOST.leave(unbatched(y, said.batch))
        if dtype != call.dtype:
            raise TypeError(f"{self.name} gave {dtype} for {call.dtype}")
        return HOST.end([(out, call.out)])

    def script(self, call, beside=None):
        return script.block(self.say(call), call, self.first["path"])

    def say(self, call):
        form = self.first
        seen = as_attention(call)
        bias_kv = form["last_key"] == "bias_kv"
        refuse(bias_kv and not said_by_bias_kv(call, seen), "bias_k and bias_v are the same for all samples, and no mask speaks of them")
        return Said(call, form, options(seen, form, call.memory.shape[1] - 1 if bias_kv else None))


class Said:
    """One call of a layer: what the layer is, its inputs as they go in, its parameters and the options."""

    def __init__(self, call, form, options):
        self.options, self.batch, self.nested = options, form["batch"], form["input"] == "nested"
        self.width, self.heads = call.x.shape[2], call.heads
        self.dtype, self.separate = TYPES[call.dtype], form["projection"] == "separate"
        self.biased = form["path"] == "fast" or call.b_q is not None or call.b_out is not None
        self.bias_kv, self.three = form["last_key"] == "bias_kv", form["projection"] == "three"
        enter = lambda view: tensor(view, call.dtype)
        x = enter(call.x)
        memory = x if call.memory is None else enter(call.memory)[:, :-1] if self.bias_kv else enter(call.memory)
        self.inputs = x, memory, memory
        if self.three:
            self.inputs = x, memory[:], memory[:]
        elif self.separate:
            self.inputs = x, wider(memory, 1), wider(memory, 2)
        if self.batch != "first":
            seen = {id(t): batched(t, self.batch) for t in self.inputs}
            self.inputs = tuple(seen[id(t)] for t in self.inputs)
        self.parameters = parameters(self, call, enter)

    def run(self, layer):
        if not self.nested:
            return layer(*self.inputs, **self.options)[0]
        x = torch.nested.as_nested_tensor(list(self.inputs[0]))
        return layer(x, x, x, **self.options)[0].to_padded_tensor(float("nan"))


def parameters(said, call, enter):
    """The layer's parameters by their names, views of the call's own memory where that can be."""
    weights, biases = [call.w_q, call.w_k, call.w_v], [call.b_q, call.b_k, call.b_v]
    made = {"out_proj.weight": enter(call.w_out)}
    if said.separate:
        made |= {"q_proj_weight": enter(call.w_q), "k_proj_weight": wider(enter(call.w_k), 1),
                 "v_proj_weight": wider(enter(call.w_v), 2)}
    else:
        made["in_proj_weight"] = joined(weights, enter)
    if said.biased:
        zeros = lambda n: torch.zeros(n, dtype=said.dtype)
        made["in_proj_bias"] = zeros(3 * said.width) if call.b_q is None else joined(biases, enter)
        made["out_proj.bias"] = zeros(said.width) if call.b_out is None else enter(call.b_out)
    if said.bias_kv:
        token = exact(enter(call.memory)[0, -1])
        for name, weight in (("bias_k", call.w_k), ("bias_v", call.w_v)):
            row = exact(enter(weight)) @ token  # in 80 bits
            made[name] = torch.from_numpy(row.astype(np.float64)).to(said.dtype).reshape(1, 1, -1)
    return made


def layer(said):
    """A layer with these parameters; the modules of some widths are kept."""
    key = (said.width, said.heads, said.dtype, said.separate, said.biased, said.bias_kv, said.batch)
    if key not in _layers:
        if len(_layers) == _KEPT_LAYERS:
            _layers.clear()
        kdim, vdim = (said.width + 1, said.width + 2) if said.separate else (None, None)
        with torch.device("meta"):
            _layers[key] = torch.nn.MultiheadAttention(
                said.width, said.heads, bias=said.biased, add_bias_kv=said.bias_kv, kdim=kdim, vdim=vdim,
                batch_first=said.batch != "second", dtype=said.dtype).eval()
    made = _layers[key]
    for name, value in said.parameters.items():
        owner, _, own = name.rpartition(".")
        setattr(made.get_submodule(owner), own, Parameter(value, requires_grad=False))
    return made


def joined(views, enter):
    """One tensor of the rows of all: the call's own memory where they lie behind each other in one buffer."""
    together = side_by_side(views)
    return torch.cat([enter(view) for view in views]) if together is None else enter(together)


def wider(t, columns):
    """The tensor with so many more features, of zeros."""
    return torch.nn.functional.pad(t, (0, columns))


def exact(t):
    return t.double().numpy().astype(np.longdouble)


def unbatched(y, batch):
    return y[None] if batch == "none" else y.transpose(0, 1) if batch == "second" else y


def options(seen, form, keys):
    """`keys`: how many of them, the first ones, the masks speak of; None for all."""
    made = {"none": {"need_weights": False}, "averaged": {}, "per_head": {"average_attn_weights": False}}[form["weights"]]
    padding, mask = masks(seen, {"mask": "padding", "mask_type": form["mask_type"]})
    if padding is not None:
        made["key_padding_mask"] = (padding[0] if form["batch"] == "none" else padding)[..., :keys]
    if mask is not None:
        made["attn_mask"] = mask[..., :keys]
        if is_the_causal_mask(made["attn_mask"]):
            made["is_causal"] = True  # "a hint that attn_mask is the causal mask"
            if form["causal"] == "alone":
                del made["attn_mask"]
    return made


def said_by_bias_kv(call, seen):
    """Whether the last token of memory is the same in all samples and open to every row, without a bias of scores."""
    last = tensor(call.memory, call.dtype)[:, -1]
    if not torch.equal(last, last[:1].expand_as(last)) or not open_keys(seen)[..., -1].all():
        return False
    return call.bias is None or not tensor(call.bias, call.dtype)[..., -1].any()
