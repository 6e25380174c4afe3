"""A Python function as a subject of layer_norm."""
from .function_base import Function


class LayerNormFunction(Function):
    op = "layer_norm"
    LEADING, SECOND, NUMBERS = ("x",), "sum_out", ("epsilon",)
    OPTIONS = ("residual", "gamma", "beta", "epsilon", "rms", "sum_out", "out", "threads")
    TENSORS = {"x": "dtype", "residual": "dtype", "gamma": "param_dtype", "beta": "param_dtype"}
    ASKED = ("sum_out",)

    def option_names(self):
        names = super().option_names()
        if "epsilon" not in names:
            raise TypeError(f"{self.name} must take epsilon: every call has its own")
        if "sum_out" in names and "residual" not in names:
            raise TypeError(f"{self.name} takes sum_out without a residual, and there is no sum: take both")
        return names

    def offers(self):
        # No parameter shows a function that does RMSNorm alone: declare it with supports={"norms": ["rms"]}.
        return {"norms": ["layer", "rms"] if "rms" in self.takes else ["layer"],
                **{feature: feature in self.takes for feature in ("residual", "sum_out", "gamma", "beta")}}

    def promised(self):
        return self.contract  # it has no products

    def layer_norm(self, call):
        place = self.arrays.begin(call)
        options = {option: get(call, place) for option, get in self.bindings}
        result = place.run(self.function, place.enter(call.x, call.dtype), **options)
        return place.end(self.results(place, result, call, self.SECOND, call.dtype, (call.dtype,)))
