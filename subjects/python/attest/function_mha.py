"""A Python function as a subject of mha: whole attention blocks."""
from .device import with_mma
from .function_base import Function
from .protocol import MhaCall, Unsupported

STAGES = {"heads" if name == "heads_out" else name: name for name in MhaCall.STAGES}  # as describe calls them


class MhaFunction(Function):
    op = "mha"
    LEADING, SECOND, NUMBERS = ("x", "w_q", "w_k", "w_v", "w_out"), None, ("scale",)
    OPTIONS = ("memory", "b_q", "b_k", "b_v", "b_out", "bias", "keep", "kv_lengths", "heads", "kv_heads", "head_dim", "scale",
               "causal", "align", "stages", "out", "threads")

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.corner_is_said = "align" in self.takes or "align" in self.declared

    def option_names(self):
        names = super().option_names()
        if "heads" not in names:
            raise TypeError(f"{self.name} must take heads: no tensor shows how many there are")
        some = names.intersection(("b_q", "b_k", "b_v"))
        if some and len(some) < 3:
            raise TypeError(f"{self.name} takes {', '.join(sorted(some))} of b_q, b_k and b_v: calls have all three or none")
        return names

    def offers(self):
        takes = self.takes
        supports = {feature: feature in takes for feature in ("causal", "bias", "keep", "kv_lengths")}
        supports["memory"] = ["self", "cross"] if "memory" in takes else ["self"]
        supports["in_biases"], supports["out_bias"] = "b_q" in takes, "b_out" in takes
        supports["gqa"] = "kv_heads" in takes
        supports["scale"] = "any" if "scale" in takes else "default"
        supports["stages"] = list(STAGES) if "stages" in takes else []
        return supports

    def promised(self):
        return with_mma(self.contract, self.arrays.capability)

    def mha(self, call):
        if not self.corner_is_said and corner_matters(call):
            raise Unsupported(f"{self.name} does not say which corner the diagonal starts from: take `align`, or "
                              'declare supports={"align": ["top_left"]}')
        place = self.arrays.begin(call)
        tensors = [place.enter(getattr(call, name), call.dtype) for name in self.LEADING]
        options = {option: get(call, place) for option, get in self.bindings}
        result = place.run(self.function, *tensors, **options)
        asked = asked_stages(call)
        stages = {}
        if asked:
            if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
                raise TypeError(f"{self.name} was asked for {', '.join(asked)} and did not return (out, a dict of them)")
            result, stages = result
            if missing := set(asked) - set(stages):
                raise TypeError(f"{self.name} was asked for {', '.join(asked)} and did not return {', '.join(sorted(missing))}")
        returned = self.results(place, result, call, None, None, ())
        for stage in asked:
            view = getattr(call, STAGES[stage])
            array = self.checked(place, stage, stages[stage], view, (call.stage_dtype,))
            returned.append((array, place.target(view, call.stage_dtype)))
        return place.end(returned)

    def asked(self, call):
        return asked_stages(call)

    def tensor_types(self, call):
        return {**{name: call.dtype for name in MhaCall.INPUTS}, "keep": "bool", "kv_lengths": "i32"}

    # The argument for each option: None stands for an absent tensor. `place`: where tensors are to be.
    def get_heads(self, call, _place): return call.heads
    def get_kv_heads(self, call, _place): return call.kv_heads
    def get_head_dim(self, call, _place): return call.head_dim
    def get_scale(self, call, _place): return call.scale
    def get_causal(self, call, _place): return call.causal
    def get_align(self, call, _place): return ("top_left", "bottom_right")[call.align]
    def get_stages(self, call, _place): return asked_stages(call)
    def get_memory(self, call, place): return entered(call.memory, call.dtype, place)
    def get_b_q(self, call, place): return entered(call.b_q, call.dtype, place)
    def get_b_k(self, call, place): return entered(call.b_k, call.dtype, place)
    def get_b_v(self, call, place): return entered(call.b_v, call.dtype, place)
    def get_b_out(self, call, place): return entered(call.b_out, call.dtype, place)
    def get_bias(self, call, place): return entered(call.bias, call.dtype, place)
    def get_keep(self, call, place): return entered(call.keep, "bool", place)
    def get_kv_lengths(self, call, place): return entered(call.kv_lengths, "i32", place)


def entered(view, dtype, place):
    return None if view is None else place.enter(view, dtype)


def asked_stages(call):
    """The stages that the call asks for, as describe calls them."""
    return tuple(stage for stage, name in STAGES.items() if getattr(call, name) is not None)


def corner_matters(call):
    """Whether top-left and bottom-right diagonals differ in this call."""
    if not call.causal:
        return False
    rows, keys = call.x.shape[1], (call.x if call.memory is None else call.memory).shape[1]
    return bool((call.kv_lengths != rows).any()) if call.kv_lengths is not None else rows != keys
