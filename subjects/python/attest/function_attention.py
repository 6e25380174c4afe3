"""A Python function as a subject of attention."""
import numpy as np

from .function_base import Function, lengths_differ

LSE = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}  # the types of a log-sum-exp


class AttentionFunction(Function):
    op = "attention"
    LEADING, SECOND, NUMBERS = ("q", "k", "v"), "lse", ("scale",)
    OPTIONS = ("scale", "causal", "align", "bias", "keep", "kv_lengths", "softcap", "window_left", "window_right",
               "lse", "out", "threads", "form")
    TENSORS = {"q": "dtype", "k": "dtype", "v": "dtype", "bias": "bias_dtype", "keep": "bool", "kv_lengths": "i32"}
    ASKED = ("lse",)

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.first_forms = first_forms(self.name, self.declared.get("forms", {}), self.takes)

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

    def corner_matters(self, call):
        """Whether top-left and bottom-right diagonals differ in this call."""
        moves = call.causal or call.window_left >= 0 or call.window_right >= 0
        return moves and lengths_differ(call.q.shape[2], call.k.shape[2], call.kv_lengths)

    def attention(self, call):
        self.check_corner(call)
        place = self.arrays.begin(call)
        enter, dtype = place.enter, call.dtype
        options = {option: get(call, place) for option, get in self.bindings}
        result = place.run(self.function, enter(call.q, dtype), enter(call.k, dtype), enter(call.v, dtype), **options)
        stored = None if call.lse is None else LSE[call.lse.dtype]
        return place.end(self.results(place, result, call, "lse", stored, ("f32", "f64")))

    # None stands for an unbounded window.
    def get_window_left(self, call, _place): return None if call.window_left < 0 else call.window_left
    def get_window_right(self, call, _place): return None if call.window_right < 0 else call.window_right
    def get_form(self, call, _place): return {**self.first_forms, **call.form}


def first_forms(subject_name, forms, takes):
    """Every form at its first value: what a call that says nothing of them means."""
    if forms and "form" not in takes:
        raise TypeError(f"{subject_name} declares forms and has no parameter `form` to be told which is meant")
    first = {}
    for form, values in forms.items():
        value = values[0] if isinstance(values, list) and values else None
        first[form] = value.get("value") if isinstance(value, dict) else value
    return first
