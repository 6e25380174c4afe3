"""A Python function as a subject of mha: whole attention blocks."""
from .function_base import Function, lengths_differ
from .protocol import MhaCall

STAGES = {"heads" if name == "heads_out" else name: name for name in MhaCall.STAGES}  # as describe calls them


class MhaFunction(Function):
    op = "mha"
    LEADING, SECOND, NUMBERS = ("x", "w_q", "w_k", "w_v", "w_out"), None, ("scale",)
    OPTIONS = ("memory", "b_q", "b_k", "b_v", "b_out", "bias", "keep", "kv_lengths", "heads", "kv_heads", "head_dim", "scale",
               "causal", "align", "stages", "out", "threads")
    TENSORS = {**{name: "dtype" for name in MhaCall.INPUTS}, "keep": "bool", "kv_lengths": "i32"}
    ASKED = ()

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

    def corner_matters(self, call):
        """Whether top-left and bottom-right diagonals differ in this call."""
        memory = call.x if call.memory is None else call.memory
        return call.causal and lengths_differ(call.x.shape[1], memory.shape[1], call.kv_lengths)

    def mha(self, call):
        self.check_corner(call)
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

    def get_stages(self, call, _place): return asked_stages(call)


def asked_stages(call):
    """The stages that the call asks for, as describe calls them."""
    return tuple(stage for stage, name in STAGES.items() if getattr(call, name) is not None)
