"""torch.nn.functional.scaled_dot_product_attention of nested tensors on the CPU: samples with keys of their own number.

Documents: https://docs.pytorch.org/docs/2.15/nested.html, the docstrings of torch.nested and that of
scaled_dot_product_attention, on which _torch_sdpa.py says more. They are read as follows:
- key lengths, and a mask of keys alone, become samples with fewer keys;
- is_causal starts at the top left of each sample, as without nested tensors. That the math backend does not take it in the jagged
  layout is told to a log alone, and other backends may; the strided layout refuses it with the same words;
- torch.nested.narrow gives a non-contiguous view, for which "Operation support ... is somewhat more limited, so if you run into
  support gaps, it's always possible to convert to a contiguous NJT using contiguous()": it lies over the problem's own padding.
Nothing is said on samples without keys, precision, determinism, NaN: nothing is claimed.
Nested tensors are copies, so layouts of the problem are packed before the call.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from attest import Unsupported

from . import _torch_script as script
from ._forms import drawn, refuse
from ._masks import starts_top_left, windowed
from ._quotes import quotes
from ._torch_call import NO_PROMISE, TYPES, Subject, ask, describe, lengths_as_keep, narrowed, tensor
from ._torch_sdpa import DOCUMENTS as OF_TENSORS

DOCUMENTS = {about: OF_TENSORS[about] for about in ("causal", "scale", "form.scale")} | quotes("""
page nested
    attention | The API for calling operations on a nested tensor is no different from that of a regular torch.Tensor
    keep kv_lengths | This is inefficient and error-prone, and nested tensors exist to address these problems.
docstring of torch.nested.as_nested_tensor | form.made=list | If a tensor list is provided, tensors in the list are always copied during construction of the nested tensor.
docstring of torch.nested.nested_tensor_from_jagged | form.made=values | Constructs a jagged layout nested tensor from the given jagged components.
docstring of torch.nested.narrow | form.made=narrow | jagged layout narrow() will create a non-contiguous view of your original strided tensor.
docstring of torch.nested.nested_tensor | form.made=strided | Only strided and jagged layouts are supported. Default: if None, the strided layout.
docstring of torch.nn.functional.scaled_dot_product_attention
    ! scaled_dot_product_attention has no softcap | scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False)
    ! nested tensors have as many heads of keys as of queries | GQA does not support Nested tensors.
source of torch.nested._internal.sdpa
    ! nested tensors take no masks: no keys of some queries or heads alone can be left out, and no bias is added | Masks are not yet supported!
    ! nested tensors of the strided layout take no causal mask | Nested tensors for query / key are not supported when is_causal=True.
""")


class Nested(Subject):
    documents = DOCUMENTS
    forms = {
        "made": ["list", "values", "narrow", drawn("strided", "!causal")],  # see nested()
        "queries": ["whole", drawn("split", "!causal")],  # split: each sample as two, of one query and of the others, with the same keys
        "scale": ["as_called", "explicit"],
    }

    def describe(self):
        return describe(self, {"align": ["top_left"], "window": False, "bias": False, "gqa": False,
                               "drawn": "!causal || keep==none"}, NO_PROMISE)

    def answer(self, call, place):
        rows, made, options = self.say(call)
        q, k, v = (place.enter(view, call.dtype) for view in (call.q, call.k, call.v))
        got = ask(lambda: attention(q, k, v, rows, made, **options))
        out = torch.empty(call.out.shape, dtype=TYPES[call.dtype])
        for (sample, (first, last), _), row in zip(rows, got):
            out[sample, :, first:last] = row
        return out, None

    def say(self, call):
        """(rows, how their tensors are made, options): each row (sample, its queries from and to, its keys)."""
        refuse(call.softcap > 0, "scaled_dot_product_attention has no softcap")
        refuse(call.k.shape[1] != call.q.shape[1], "nested tensors have as many heads of keys as of queries")
        said = self.said(call)
        refuse(call.causal and said["made"] == "strided", "nested tensors of the strided layout take no causal mask")
        b, _, lq, _ = call.q.shape
        every = torch.ones(1, 1, 1, call.k.shape[2], dtype=torch.bool)
        keep = every if call.keep is None else narrowed(tensor(call.keep, "bool"))
        keep = keep if call.kv_lengths is None else keep & lengths_as_keep(call)
        moved = call.causal and (call.keep is not None or said["queries"] == "split" or not starts_top_left(call))
        if call.bias is not None or windowed(call) or moved or keep.shape[1] != 1 or keep.shape[2] != 1:
            raise Unsupported("nested tensors take no masks: no keys of some queries or heads alone can be left out, and no bias is added")
        split = said["queries"] == "split" and lq > 1
        rows = [(sample, queries, open_keys.nonzero()[:, 0].tolist())
                for sample, open_keys in enumerate(keep.expand(b, 1, 1, call.k.shape[2])[:, 0, 0])
                for queries in ([(0, 1), (1, lq)] if split else [(0, lq)])]
        options = {} if call.scale_is_default and said["scale"] == "as_called" else {"scale": call.scale}
        if call.causal:
            options["is_causal"] = True
        return rows, said["made"], options

    def script(self, call, beside=None):
        return script.nested([nested, attention], *self.say(call), call)


def nested(t, rows, made):
    """The rows (sample, positions) of t [B, H, L, D] as a nested tensor [len(rows), H, positions, D]: made of a list, of values
    and offsets, as a view of the padded tensor where the rows are its samples and begin at position 0, or in the strided
    layout."""
    parts = [t[sample][:, positions].transpose(0, 1) for sample, positions in rows]
    lengths = [len(positions) for _, positions in rows]
    padded = [sample for sample, _ in rows] == list(range(len(t))) and all(p == list(range(len(p))) for _, p in rows)
    if made == "strided":
        return torch.nested.as_nested_tensor([part.transpose(0, 1) for part in parts], layout=torch.strided)
    if made == "narrow" and padded:
        x = torch.nested.narrow(t.transpose(1, 2).contiguous(), 1, 0, torch.tensor(lengths), layout=torch.jagged).contiguous()
    elif made == "values":
        x = torch.nested.nested_tensor_from_jagged(torch.cat(parts), torch.tensor([0, *lengths]).cumsum(0))
    else:
        x = torch.nested.as_nested_tensor(parts, layout=torch.jagged)
    return x.transpose(1, 2)


def attention(q, k, v, rows, made, **options):
    """The output [H, queries, Dv] of each row (sample, its queries from and to, its keys)."""
    queries = nested(q, [(sample, list(range(*span))) for sample, span, _ in rows], made)
    keys, values = (nested(t, [(sample, keys) for sample, _, keys in rows], made) for t in (k, v))
    return scaled_dot_product_attention(queries, keys, values, **options).unbind()
