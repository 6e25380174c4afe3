"""torch.nn.attention.flex_attention.flex_attention on the CPU: eager, and under torch.compile, which is how it is meant to run.

Document: https://docs.pytorch.org/docs/2.15/nn.attention.flex_attention.html, the same text as the docstrings. How it is read:
- a softcap and then a bias are a score_mod of the scaled score; causal masks of both corners, windows, key lengths and keep masks
  are mask_mods, all of them in one by and_masks;
- the code: "Returning max scores is not supported on CPU.", and under torch.compile "torch.compile on CPU only
  supports inference and `return_lse` is not supported yet." and "`torch.float` , `torch.float16` and `torch.bfloat16` are
  supported in FlexAttention for CPU device.", so the compiled subject has neither a log-sum-exp nor float64;
- "flex_attention called without torch.compile() - this will use an unfused implementation that materializes the full scores
  matrix", which torch._dynamo traces, unless _FLEX_ATTENTION_DISABLE_COMPILE_DEBUG is set "to debug your score_mod/mask_mod";
- kernel_options are passed on, PRESCALE_QK of them.
Nothing is said on rows without keys, precision, determinism, NaN: nothing is claimed. "a prototype feature".
"""

import torch
from torch.nn.attention import flex_attention as flex

from . import _torch_script as script
from ._masks import BOTTOM_RIGHT
from ._quotes import quotes
from ._torch_call import HOST, NO_PROMISE, TYPES, Subject, ask, describe
from ._torch_compile import COMPILED, SHAPES, TIMES, ask_compiled, need_compiler

DOCUMENTS = quotes(r"""
docstring of torch.nn.attention.flex_attention.create_block_mask
    keep kv_lengths window causal form.mask=block_mask | It should return a boolean tensor indicating which attention connections are allowed (True) or masked out (False).
    form.block | Block size for the block mask.
docstring of torch.nn.attention.flex_attention.and_masks | keep kv_lengths window causal | Returns a mask_mod that's the intersection of provided mask_mods
source of torch.nn.attention.flex_attention | form.prescale | Whether to pre-scale QK by 1/sqrt(d) and change of base. This is slightly faster but may have more numerical error.
docstring of torch.nn.attention.flex_attention.flex_attention
    attention softcap bias form.mask=score_mod | This function computes the scaled dot product attention between query, key, and value tensors with a user-defined attention score modification function.
    softcap bias form.mask=score_mod | The attention score modification function will be applied after the attention scores have been calculated between the query and key tensors.
    scale form.scale | Scaling factor applied prior to softmax. If none, the default value is set to \frac{1}{\sqrt{E}}.
    gqa form.gqa | If set to True, enables Grouped Query Attention (GQA) and broadcasts key/value heads to query heads.
    lse form.aux=always | Use AuxRequest(lse=True, max_scores=True) to request both auxiliary outputs.
    form.aux=return_lse | Whether to return the logsumexp of the attention scores. Default is False. Deprecated:
""")

_BLOCKS = {"default": None, "16": 16, "uneven": (64, 32)}


class Flex(Subject):
    """Called with _FLEX_ATTENTION_DISABLE_COMPILE_DEBUG set: the same operator as in a traced call, in a tenth of the time."""

    documents = DOCUMENTS
    forms = {
        "mask": ["block_mask", "score_mod"],  # masks as a mask_mod, or as a score_mod that gives -inf
        "block": list(_BLOCKS),  # BLOCK_SIZE
        "scale": ["as_called", "explicit"],
        "gqa": ["as_needed", "enabled"],  # enable_gqa
        "aux": ["needed", "always", "return_lse"],  # return_aux where a log-sum-exp is asked for, always; or return_lse
        "prescale": ["unsaid", "asked"],  # kernel_options
    }
    supports = {"lse": True}
    dtypes = tuple(TYPES)
    contract = NO_PROMISE
    debug = True

    def describe(self):
        return describe(self, {"softcap": True, **self.supports}, self.contract, self.dtypes)

    def answer(self, call, place):
        q, k, v, mods, options = self.say(call, place)
        got = self.run(call, q, k, v, **attention_options(q, k, mods, options))
        out, lse = got if isinstance(got, tuple) else (got, None)
        return out, lse.lse if isinstance(lse, flex.AuxOutput) else lse

    def run(self, call, q, k, v, **options):
        flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = self.debug
        if not self.debug:  # the traces of calls before this one, which make dimensions and numbers symbols (torch-flex-2)
            torch._dynamo.reset()
        return ask(lambda: flex.flex_attention(q, k, v, **options))

    def say(self, call, place=HOST):
        """(query, key, value, what the mods are made of, options)."""
        said = self.said(call)
        q, k, v = (place.enter(view, call.dtype) for view in (call.q, call.k, call.v))
        lq, lk = q.shape[2], k.shape[2]
        lengths = None if call.kv_lengths is None else place.enter(call.kv_lengths, "i32")
        diagonal = None
        if call.causal or call.window_left >= 0 or call.window_right >= 0:
            right = 0 if call.causal else call.window_right
            reach = [min(side, lq + lk) if side >= 0 else None for side in (call.window_left, right)]
            diagonal = (reach[0], reach[1], call.align == BOTTOM_RIGHT)
        mods = dict(softcap=call.softcap, bias=None if call.bias is None else place.enter(call.bias, call.dtype),
                    keep=None if call.keep is None else place.enter(call.keep, "bool"), lengths=lengths, diagonal=diagonal,
                    by_score=said["mask"] == "score_mod", block=_BLOCKS[said["block"]])
        options = {}
        if not call.scale_is_default or said["scale"] == "explicit":
            options["scale"] = call.scale
        if call.q.shape[1] != call.k.shape[1] or said["gqa"] == "enabled":
            options["enable_gqa"] = True
        if said["aux"] == "return_lse":
            options["return_lse"] = True
        elif said["aux"] == "always" or call.lse is not None:
            options["return_aux"] = flex.AuxRequest(lse=True)
        if said["prescale"] == "asked":
            options["kernel_options"] = {"PRESCALE_QK": True}
        return q, k, v, mods, options

    def script(self, call, beside=None):
        return script.flex([mask_mods, score_mods, attention_options], *self.say(call)[3:], call, self.device,
                           debug=self.debug)


class FlexTraced(Flex):
    """A plain call."""

    debug = False


class FlexCompiled(Flex):
    """The same under torch.compile."""

    documents = DOCUMENTS | COMPILED
    times = TIMES
    forms = {name: values for name, values in Flex.forms.items() if name != "aux"} | {"shapes": list(SHAPES)}
    supports = {"lse": False}
    dtypes = ("f32", "bf16", "f16")

    def __init__(self, name, device=None, **pinned):
        super().__init__(name, device, **pinned)
        need_compiler(device)

    def run(self, call, q, k, v, **options):
        return ask_compiled(flex.flex_attention, self.said(call)["shapes"], q, k, v, **options)

    def script(self, call, beside=None):
        return script.flex([mask_mods, score_mods, attention_options], *self.say(call)[3:], call, self.device,
                           dynamic=SHAPES[self.said(call)["shapes"]])


def mask_mods(keep, lengths, diagonal, lq, lk):
    """The masks of the keys that take part, a mask_mod each. diagonal: its reach to the left and to the right, None without end,
    and whether it starts at the bottom right."""
    mods = []
    if keep is not None:
        mods.append(lambda b, h, i, j: keep[b, h, i, j])
    if lengths is not None:
        mods.append(lambda b, h, i, j: j < lengths[b])
    left, right, bottom = diagonal or (None, None, False)
    if bottom and lengths is not None:
        centre = lambda b, i: i + lengths[b] - lq
    elif bottom:
        centre = lambda b, i: i + (lk - lq)
    else:
        centre = lambda b, i: i
    if left is not None:
        mods.append(lambda b, h, i, j: j - centre(b, i) >= -left)
    if right is not None:
        mods.append(lambda b, h, i, j: j - centre(b, i) <= right)
    return mods


def score_mods(softcap, bias):
    """The functions that change a score, in this order."""
    mods = []
    if softcap > 0:
        mods.append(lambda score, b, h, i, j: softcap * torch.tanh(score / softcap))
    if bias is not None:
        mods.append(lambda score, b, h, i, j: score + bias[b, h, i, j])
    return mods


def attention_options(q, k, mods, options):
    """The options with score_mod and block_mask where there are any."""
    lq, lk = q.size(2), k.size(2)
    scores, masks = score_mods(mods["softcap"], mods["bias"]), mask_mods(mods["keep"], mods["lengths"], mods["diagonal"], lq, lk)
    mask = flex.and_masks(*masks)
    if masks and mods["by_score"]:
        scores.append(lambda score, b, h, i, j: torch.where(mask(b, h, i, j), score, float("-inf")))
    elif masks:
        size = {} if mods["block"] is None else {"BLOCK_SIZE": mods["block"]}
        options = {**options, "block_mask": flex.create_block_mask(mask, q.size(0), q.size(1), lq, lk, device=q.device, **size)}
    if len(scores) == 1:
        options = {**options, "score_mod": scores[0]}
    elif scores:
        def score_mod(score, b, h, i, j):
            for mod in scores:
                score = mod(score, b, h, i, j)
            return score
        options = {**options, "score_mod": score_mod}
    return options
