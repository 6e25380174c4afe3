"""A Python function as a subject of attention."""
import numpy as np

from .device import with_mma
from .function_base import Function
from .protocol import Unsupported

LSE = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}  # the types of a log-sum-exp


class AttentionFunction(Function):
    op = "attention"
    LEADING, SECOND, NUMBERS = ("q", "k", "v"), "lse", ("scale",)
    OPTIONS = ("scale", "causal", "align", "bias", "keep", "kv_lengths", "softcap", "window_left", "window_right",
               "lse", "out", "threads", "form")

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.first_forms = first_forms(self.name, self.declared.get("forms", {}), self.takes)
        self.corner_is_said = "align" in self.takes or "align" in self.declared

    def option_names(self):
        names = super().option_names()
        if ("window_left" in names) != ("window_right" in names):
            raise TypeError(f"{self.name} takes one of window_left and window_right: take both or none")
        return names

    def offers(self):
        takes = self.takes
        supports = {feature: feature in takes for feature in ("causal", "bias", "keep", "kv_lengths", "softcap", "lse")}
        supports["window"] = "window_left" in takes
        supports["scale"] = "any" if "scale" in takes else "default"
        supports["gqa"] = False  # no parameter shows it: declare it with supports={"gqa": True}
        return supports

    def promised(self):
        return with_mma(self.contract, self.arrays.capability)

    def attention(self, call):
        if not self.corner_is_said and corner_matters(call):
            raise Unsupported(f"{self.name} does not say which corner the diagonal starts from: take `align`, or "
                              'declare supports={"align": ["top_left"]}')
        place = self.arrays.begin(call)
        enter, dtype = place.enter, call.dtype
        options = {option: get(call, place) for option, get in self.bindings}
        result = place.run(self.function, enter(call.q, dtype), enter(call.k, dtype), enter(call.v, dtype), **options)
        stored = None if call.lse is None else LSE[call.lse.dtype]
        return place.end(self.results(place, result, call, "lse", stored, ("f32", "f64")))

    def tensor_types(self, call):
        return {"q": call.dtype, "k": call.dtype, "v": call.dtype, "bias": call.bias_dtype, "keep": "bool", "kv_lengths": "i32"}

    # The argument for each option: None stands for an absent tensor and an unbounded window. `place`: where tensors are to be.
    def get_scale(self, call, _place): return call.scale
    def get_causal(self, call, _place): return call.causal
    def get_align(self, call, _place): return ("top_left", "bottom_right")[call.align]
    def get_softcap(self, call, _place): return call.softcap
    def get_lse(self, call, _place): return call.lse is not None
    def get_window_left(self, call, _place): return None if call.window_left < 0 else call.window_left
    def get_window_right(self, call, _place): return None if call.window_right < 0 else call.window_right
    def get_bias(self, call, place): return None if call.bias is None else place.enter(call.bias, call.bias_dtype)
    def get_keep(self, call, place): return None if call.keep is None else place.enter(call.keep, "bool")
    def get_form(self, call, _place): return {**self.first_forms, **call.form}

    def get_kv_lengths(self, call, place):
        return None if call.kv_lengths is None else place.enter(call.kv_lengths, "i32")


def corner_matters(call):
    """Whether top-left and bottom-right diagonals differ in this call."""
    if not call.causal and call.window_left < 0 and call.window_right < 0:
        return False
    rows, keys = call.q.shape[2], call.k.shape[2]
    return bool((call.kv_lengths != rows).any()) if call.kv_lengths is not None else rows != keys


def first_forms(subject_name, forms, takes):
    """Every form at its first value: what a call that says nothing of them means."""
    if forms and "form" not in takes:
        raise TypeError(f"{subject_name} declares forms and has no parameter `form` to be told which is meant")
    first = {}
    for form, values in forms.items():
        value = values[0] if isinstance(values, list) and values else None
        first[form] = value.get("value") if isinstance(value, dict) else value
    return first
